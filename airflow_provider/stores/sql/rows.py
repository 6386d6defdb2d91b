"""Records as rows: the columns that people query stand beside the encoded body."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Row

from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.interval import Interval, from_micros, micros
from airflow_provider.domain.records import Key, Kind, Stamped
from airflow_provider.stores import codec
from airflow_provider.stores.base import commit_key
from airflow_provider.stores.requests import CheckedTransaction


def addresses(keys: Iterable[Key]) -> list[tuple[str, str, str]]:
    """The parts of *keys* below their domain, as parameters."""
    return [(key.kind.value, key.partition, key.item) for key in keys]


def key(domain: DomainName, row: Row[Any]) -> Key:
    return Key(domain, Kind(row.kind), row.partition, row.item)


def stamped(domain: DomainName, row: Row[Any]) -> Stamped[Any]:
    """:raises StoreIncompatible: the body cannot be decoded."""
    address = key(domain, row)
    record = codec.decode(address, row.body)
    return Stamped(address, record, row.version, row.csn, from_micros(row.updated_at))


def written(request: CheckedTransaction, *, version: int, csn: int | None, at_us: int) -> list[dict[str, Any]]:
    """Return the rows that *request* writes, the commit record's among them."""
    bodies = [(put.key, put.record, body) for put, body in request.puts]
    if csn is not None and request.commit is not None:
        bodies.append((commit_key(request.domain, csn), *request.commit))
    return [
        {
            "domain": address.domain,
            "kind": address.kind.value,
            "partition": address.partition,
            "item": address.item,
            "version": version,
            "csn": csn,
            "updated_at": at_us,
            "body": body.decode(),
            **_queried(record),
        }
        for address, record, body in bodies
    ]


def _queried(record: object) -> dict[str, Any]:
    """What an operator may ask for without reading bodies: the record's state and interval, if it has them."""
    interval = getattr(record, "interval", None)
    state = getattr(record, "state", None)
    return {
        "state": None if state is None else str(state),
        "interval_start": micros(interval.start) if isinstance(interval, Interval) else None,
        "interval_end": micros(interval.end) if isinstance(interval, Interval) else None,
    }
