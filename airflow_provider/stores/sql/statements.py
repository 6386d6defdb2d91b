"""The SQL store's statements: SQLAlchemy Core, bound values only."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Delete,
    Select,
    Table,
    Text,
    bindparam,
    cast,
    delete,
    func,
    select,
    tuple_,
    update,
)

from airflow_provider.stores.base import CATALOG_NAME
from airflow_provider.stores.sql.schema import head_table, iceberg_tables, record_table, store_table

_record = record_table.c
_columns = (
    _record.kind,
    _record.partition,
    _record.item,
    _record.version,
    _record.csn,
    _record.updated_at,
    _record.body,
)

HEAD = select(
    store_table.c.incarnation,
    select(head_table.c.csn).where(head_table.c.domain == bindparam("domain")).scalar_subquery().label("csn"),
)
"""The store's incarnation and the head of one domain, null when it has none."""

INCARNATION = select(store_table.c.incarnation)
"""The store's incarnation."""

Wanted = Callable[[], Select[Any]]
"""Factory of the select that lists the contents of the parameter ``keys``, in the SQL of one database."""


@lru_cache
def differing(known: Wanted) -> Select[Any]:
    """Select the records of one partition that differ from what the caller knows, among the items of *known*.

    *known* selects item and stamp: version and time of the known record, separated by a blank. (A store that was
    restored from a backup gives out versions again; the time of the write tells such a record from the known one.)
    A row without a version says that the record is gone.
    """
    wanted = known().subquery("wanted")
    same_address = (
        (_record.domain == bindparam("domain"))
        & (_record.kind == bindparam("kind"))
        & (_record.partition == bindparam("partition"))
        & (_record.item == wanted.c.item)
    )
    stamp = cast(_record.version, Text) + " " + cast(_record.updated_at, Text)
    return (
        select(bindparam("kind"), bindparam("partition"), wanted.c.item, *_columns[3:])
        .select_from(wanted.outerjoin(record_table, same_address))
        .where(stamp.is_distinct_from(wanted.c.stamp))
    )


@lru_cache
def versions(wanted: Wanted) -> Select[Any]:
    """Select the versions of the records of one domain at the wanted addresses."""
    return select(_record.kind, _record.partition, _record.item, _record.version).where(_among(wanted))


@lru_cache
def removal(wanted: Wanted) -> Delete:
    """Delete the records of one domain at the wanted addresses."""
    return delete(record_table).where(_among(wanted))


def _among(wanted: Wanted) -> ColumnElement[bool]:
    """Match the wanted addresses: one look-up by the whole primary key each, however many records the domain has.

    (SQLite does so for a tuple IN a select; for a tuple IN a list, or a join, it reads the whole domain.)
    """
    address = tuple_(_record.kind, _record.partition, _record.item)
    return (_record.domain == bindparam("domain")) & address.in_(wanted())


def _domains() -> Select[tuple[str]]:
    """Select the distinct domains by one index look-up each, however many records there are."""
    found = select(func.min(_record.domain).label("domain")).cte("found", recursive=True)
    beyond = select(func.min(_record.domain)).where(_record.domain > found.c.domain).scalar_subquery()
    found = found.union_all(select(beyond).where(found.c.domain.is_not(None)))
    return select(found.c.domain).where(found.c.domain.is_not(None))


DOMAINS = _domains()


@lru_cache
def scan(*, start: bool, end: bool, limit: bool, reverse: bool) -> Select[Any]:
    """Select a range of a partition, sorted by item; each bound that it has is a parameter."""
    chosen = select(*_columns).where(
        _record.domain == bindparam("domain"),
        _record.kind == bindparam("kind"),
        _record.partition == bindparam("partition"),
    )
    if start:
        chosen = chosen.where(_record.item >= bindparam("start"))
    if end:
        chosen = chosen.where(_record.item < bindparam("end"))
    chosen = chosen.order_by(_record.item.desc() if reverse else _record.item)
    return chosen.limit(bindparam("limit")) if limit else chosen


@lru_cache
def put(insert: Callable[[Table], Any]) -> Any:
    """Insert a row, or overwrite the row that has its key."""
    statement = insert(record_table)
    changed = {
        column.name: statement.excluded[column.name]
        for column in record_table.columns
        if not column.primary_key
    }
    return statement.on_conflict_do_update(index_elements=list(record_table.primary_key), set_=changed)


@lru_cache
def take_number(insert: Callable[[Table], Any]) -> Any:
    """Raise the head of a domain by one, from nothing to 1, and return it."""
    statement = insert(head_table).values(domain=bindparam("domain"), csn=1)
    return statement.on_conflict_do_update(
        index_elements=[head_table.c.domain], set_={"csn": head_table.c.csn + 1}
    ).returning(head_table.c.csn)


_NAMESPACE = (iceberg_tables.c.catalog_name == CATALOG_NAME) & (
    iceberg_tables.c.table_namespace == bindparam("namespace")
)
_CATALOG_TABLE = _NAMESPACE & (iceberg_tables.c.table_name == bindparam("table"))

POINTER = select(iceberg_tables.c.metadata_location).where(_CATALOG_TABLE)
"""The pointer of one Iceberg table."""


@lru_cache
def pointers(names: Wanted) -> Select[Any]:
    """Select names and pointers of the Iceberg tables of one namespace that *names* selects."""
    columns = iceberg_tables.c.table_name, iceberg_tables.c.metadata_location
    return select(*columns).where(_NAMESPACE & iceberg_tables.c.table_name.in_(names()))


SWAP_POINTER = (
    update(iceberg_tables)
    .where(_CATALOG_TABLE)
    .values(metadata_location=bindparam("new"), previous_metadata_location=bindparam("expected"))
)
"""Moves the pointer of an Iceberg table, as Iceberg's SQL catalog does."""
