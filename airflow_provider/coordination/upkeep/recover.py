"""Recovery: the catalog's pointers follow the store, or the store adopts rows of other programs (R17)."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider.coordination.commits.adopt import adopt
from airflow_provider.coordination.commits.places import refuse_elsewhere_of
from airflow_provider.coordination.commits.pointers import as_recorded, declared_tables, refuse_ahead
from airflow_provider.coordination.context import Context
from airflow_provider.coordination.upkeep.change_catalog import change_catalog
from airflow_provider.domain.errors import EpochError, RetryableError, UnknownName
from airflow_provider.domain.identifiers import DomainName, TableName, domain_name
from airflow_provider.domain.records import table_key
from airflow_provider.domain.topology import OnForeignCommit, Table
from airflow_provider.domain.version import TableRecord, TableRef
from airflow_provider.stores.base import pages


@dataclass(frozen=True, kw_only=True, slots=True)
class RecoveredTable:
    """A table after :func:`recover`.

    :param csn: its last commit in the store. :param moved: its pointer lagged and was moved.
    :param adopted: another program's rows were adopted (R17). :param restored: another program had dropped it, and it
        was registered again. :param problem: reason for which the pointer differs from the store; empty if it agrees.
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

    :param csn: the domain's head. :param tables: all published tables, by name.
    """

    domain: DomainName
    csn: int
    tables: tuple[RecoveredTable, ...]


def recover(context: Context, domain: str, *, new_catalog: bool = False) -> Recovery:
    """Move the pointers of all tables of *domain* to the store's records.

    May be repeated, and run beside any other operation.

    A table that another program dropped from the catalog is registered again, at the metadata of its last commit.
    Rows that another program wrote to a table are adopted if its job declares ``on_foreign_commit="adopt"``.
    Defects that cannot be repaired are reported table by table: a pointer that another program moved, a table that is
    ahead of the store (R33: a restored backup).

    :param new_catalog: let the domain remember the given catalog first, in place of another one.
    :raises UnknownName: nothing is registered in the domain.
    :raises WrongWarehouse: its files are in another warehouse than the one given (R33).
    :raises WrongCatalog: its tables are in another catalog than the one given.
    :raises EpochBusy: with *new_catalog*, attempts are live; nothing was changed.
    :raises TableRecreated: with *new_catalog*, the catalog has another table of that name; nothing was changed.
    :raises StoreUnavailable: the store, the catalog or the warehouse did not answer within the time for
        retries.
    """
    name = domain_name(domain)
    if new_catalog:
        change_catalog(context, name)
    return context.retry(lambda: _recover(context, name))


def _recover(context: Context, domain: DomainName) -> Recovery:
    reader = context.store
    refuse_elsewhere_of(reader, domain, context.formats)
    records = list(pages(reader, domain, TableRecord))
    if not records:
        raise UnknownName.of_empty(domain, what="table")
    known = declared_tables(reader, domain)
    found = []
    for stamped in records:
        if stamped.record.ref is not None:
            table = known.get(TableName(stamped.key.item)) or as_recorded(stamped, stamped.record.ref)
            found.append(_recovered(context, table, stamped.csn or 0, stamped.record.ref))
    return Recovery(domain=domain, csn=reader.read(domain, []).head.csn, tables=tuple(found))


def _recovered(context: Context, table: Table, csn: int, ref: TableRef) -> RecoveredTable:
    reader, adopted, restored = context.store, False, False
    key = table_key(table.domain, table.name)
    try:
        newest = reader.read(table.domain, [key]).of(key)
        restored = context.formats[ref.format].restore(table, newest.record.ref or ref)
        if table.on_foreign_commit is OnForeignCommit.ADOPT:
            adopted = adopt(context, table)
            # Read again even if nothing was adopted: the reply of an adoption may have been lost.
            newest = reader.read(table.domain, [key]).of(key)
            ref, csn = newest.record.ref or ref, newest.csn or 0
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
