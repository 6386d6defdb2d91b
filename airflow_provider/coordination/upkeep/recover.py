"""Recovery: the catalog's pointers follow what the store recorded, or the store what others committed (R17)."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider.coordination.commits.adopt import adopt
from airflow_provider.coordination.commits.pointers import as_recorded, declared_tables, refuse_ahead
from airflow_provider.coordination.commits.warehouses import refuse_other_warehouse_of
from airflow_provider.coordination.context import Context
from airflow_provider.domain.errors import EpochError, RetryableError, UnknownName
from airflow_provider.domain.identifiers import DomainName, TableName, domain_name
from airflow_provider.domain.records import Kind, Stamped, table_key
from airflow_provider.domain.topology import OnForeignCommit, Table
from airflow_provider.domain.version import TableRecord, TableRef
from airflow_provider.stores.base import pages


@dataclass(frozen=True, kw_only=True, slots=True)
class RecoveredTable:
    """A table after :func:`recover`.

    :param csn: its last commit in the store. :param moved: whether its pointer lagged and was moved.
    :param adopted: whether another program's rows were taken over (R17). :param restored: whether another program had
        dropped it, so that the catalog did not know it, and knows it again.
    :param problem: why the pointer does not say what the store says; empty when it does.
    """

    name: TableName
    csn: int
    moved: bool
    problem: str = ""
    adopted: bool = False
    restored: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Recovery:
    """Answer of :func:`recover`.

    :param csn: the domain's head. :param tables: all that were ever published, by name.
    """

    domain: DomainName
    csn: int
    tables: tuple[RecoveredTable, ...]


def recover(context: Context, domain: str) -> Recovery:
    """Let the pointers of all tables of *domain* follow the store; may be repeated, and run beside anything.

    A table that another program dropped from the catalog is registered again, at the metadata of its last commit.
    Rows that another program wrote to a table are taken over where its job declares ``on_foreign_commit="adopt"``.
    What cannot be repaired is told table by table: a pointer that another program moved, a table that is ahead
    of the store (R33: a restored backup).

    :raises UnknownName: nothing is registered in the domain.
    :raises WrongWarehouse: its files are in another warehouse than the one given (R33).
    :raises StoreUnavailable: the store, the catalog or the warehouse did not answer within the time for
        retries.
    """
    name = domain_name(domain)
    return context.retry(
        lambda: _recover(context, name),
    )


def _recover(context: Context, domain: DomainName) -> Recovery:
    reader = context.store
    refuse_other_warehouse_of(reader, domain, context.formats.warehouse)
    records: list[Stamped[TableRecord]] = list(pages(reader, domain, Kind.TABLE, ""))
    if not records:
        raise UnknownName(
            f"domain {domain!r} has no table.",
            next_step="see `airflow epochs status`; a job registers its tables when it first runs.",
            domain=domain,
        )
    known = declared_tables(reader, domain)
    found = []
    for one in records:
        if one.record.ref is not None:
            table = known.get(TableName(one.key.item)) or as_recorded(one, one.record.ref)
            found.append(_recovered(context, table, one.csn or 0, one.record.ref))
    return Recovery(domain=domain, csn=reader.read(domain, []).head.csn, tables=tuple(found))


def _recovered(context: Context, table: Table, csn: int, ref: TableRef) -> RecoveredTable:
    reader, adopted, restored = context.store, False, False
    key = table_key(table.domain, table.name)
    try:
        newest = reader.read(table.domain, [key]).records[key]
        restored = context.formats[ref.format].restore(table, newest.record.ref or ref)
        if table.on_foreign_commit is OnForeignCommit.ADOPT:
            adopted = adopt(context, table)
            newest = reader.read(table.domain, [key]).records[
                key
            ]  # also where the reply of the adoption was lost
            ref, csn = newest.record.ref, newest.csn or 0
        answer = context.formats[ref.format].project(table, ref)
        if answer.ahead:
            refuse_ahead(reader, context.formats, table)
    except RetryableError:
        raise
    except EpochError as error:
        problem = f"{type(error).__name__}: {error}"
        return RecoveredTable(
            name=table.name, csn=csn, moved=False, problem=problem, adopted=adopted, restored=restored
        )
    return RecoveredTable(name=table.name, csn=csn, moved=answer.moved, adopted=adopted, restored=restored)
