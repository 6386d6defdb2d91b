"""Convert records to rows and back: the columns that operators query stand beside the encoded body."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.interval import Interval, from_micros, micros
from airflow_provider.domain.records import Key, Kind, Stamped
from airflow_provider.stores import codec
from airflow_provider.stores.base import CatalogSwap, commit_key
from airflow_provider.stores.requests import CheckedTransaction

_KINDS = {kind.value: kind for kind in Kind}


def key(domain: DomainName, row: Sequence[Any]) -> Key[Any]:
    """Return the key of a row that begins with kind, partition and item."""
    kind, partition, item = row[:3]
    return Key(domain, _KINDS[kind], partition, item)


def of_swap(swap: CatalogSwap) -> dict[str, str]:
    """Return *swap* as the parameters of a statement."""
    return {"namespace": swap.namespace, "table": swap.table, "expected": swap.expected, "new": swap.new}


def is_gone(row: Sequence[Any]) -> bool:
    """Return whether *row* says that no record exists at its address."""
    return row[3] is None


def is_same(known: Stamped[Any], row: Sequence[Any]) -> bool:
    """Return whether *row* holds the record *known* of the same address.

    The time is compared as well as the version, because a restored store gives out versions again.
    """
    _, _, _, version, _, updated_at, _ = row
    return (known.version, micros(known.at)) == (version, updated_at)


def stamped(domain: DomainName, row: Sequence[Any]) -> Stamped[Any]:
    """Return the record in a row: kind, partition, item, version, CSN, time, body.

    :raises StoreIncompatible: the body cannot be decoded.
    """
    kind, partition, item, version, csn, updated_at, body = row
    found = Key(domain, _KINDS[kind], partition, item)
    return Stamped(found, codec.decode(found, body), version, csn, from_micros(updated_at))


def written(
    request: CheckedTransaction, *, version: int, csn: int | None, at_us: int
) -> list[dict[str, Any]]:
    """Return the rows that *request* writes, including that of the commit record."""
    bodies = [(put.key, put.record, body) for put, body in request.puts]
    if csn is not None and request.commit is not None:
        bodies.append((commit_key(request.domain, csn), *request.commit))
    return [
        {
            "domain": written_at.domain,
            "kind": written_at.kind.value,
            "partition": written_at.partition,
            "item": written_at.item,
            "version": version,
            "csn": csn,
            "updated_at": at_us,
            "body": body.decode(),
            **_queried(record),
        }
        for written_at, record, body in bodies
    ]


def _queried(record: object) -> dict[str, Any]:
    """Return the columns that operators filter by: state and interval (microseconds), None if the record has none."""
    interval = getattr(record, "interval", None)
    state = getattr(record, "state", None)
    return {
        "state": None if state is None else str(state),
        "interval_start": micros(interval.start) if isinstance(interval, Interval) else None,
        "interval_end": micros(interval.end) if isinstance(interval, Interval) else None,
    }
