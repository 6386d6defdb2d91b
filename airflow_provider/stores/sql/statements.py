"""The statements that are the same in every database: SQLAlchemy Core, bound values only."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from sqlalchemy import Select, bindparam, func, select

from airflow_provider.stores.sql.schema import record_table

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
