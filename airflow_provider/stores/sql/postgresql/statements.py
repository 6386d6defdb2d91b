"""The statements of a transaction as psycopg sends them, several at a time; values are bound, never written in.

Lists travel as arrays, so that a statement's text is the same for any number of records and is prepared once.
Each address is one look-up by the whole primary key, in the order given, whatever the planner believes about
the table. (``LATERAL … LIMIT 1`` leaves it no other plan.)
"""

# ruff: noqa: S608 - put together from constants of this module; values are bound
from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, LiteralString

from airflow_provider.domain.records import Key
from airflow_provider.stores.base import CATALOG_NAME, CatalogSwap

CHANNEL = "epochs"
"""Where commits are announced: the CSN, a blank, the domain."""

_NOW_US = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
_WANTED = (
    "unnest(%(kinds)s::text[], %(partitions)s::text[], %(items)s::text[]) AS wanted (kind, partition, item)"
)
_AT_ADDRESS = (
    "record.domain = %(domain)s AND record.kind = wanted.kind AND record.partition = wanted.partition "
    "AND record.item = wanted.item"
)

LOOK: Final[LiteralString] = f"""
SELECT store.incarnation,
    (SELECT csn FROM epochs_head WHERE domain = %(domain)s) AS head,
    {_NOW_US} AS now_us,
    found.*
FROM epochs_store AS store LEFT JOIN (
    {_WANTED} CROSS JOIN LATERAL (
        SELECT record.kind, record.partition, record.item, version, csn, updated_at, body
        FROM epochs_record AS record WHERE {_AT_ADDRESS} LIMIT 1
    ) AS found
) ON true
"""
"""One snapshot of everything; a row without a kind when no record was found."""

BEGIN: Final[LiteralString] = "BEGIN ISOLATION LEVEL READ COMMITTED"
"""Each statement sees what was committed before it; what a transaction decides on it has locked by then."""

TAKE_NUMBER: Final[LiteralString] = """
INSERT INTO epochs_head AS head (domain, csn) VALUES (%(domain)s, 1)
ON CONFLICT (domain) DO UPDATE SET csn = head.csn + 1 RETURNING csn
"""

STAMP: Final[LiteralString] = (
    f"SELECT incarnation, nextval('epochs_version') AS version, {_NOW_US} AS at_us FROM epochs_store"
)

POINTERS: Final[LiteralString] = f"""
SELECT found.* FROM unnest(%(namespaces)s::text[], %(tables)s::text[]) AS wanted (namespace, name)
CROSS JOIN LATERAL (
    SELECT table_namespace, table_name, metadata_location FROM iceberg_tables
    WHERE catalog_name = '{CATALOG_NAME}' AND table_namespace = wanted.namespace AND table_name = wanted.name
    LIMIT 1 FOR UPDATE
) AS found
"""

SWAP: Final[LiteralString] = f"""
UPDATE iceberg_tables SET metadata_location = swap.new, previous_metadata_location = swap.expected
FROM unnest(%(namespaces)s::text[], %(tables)s::text[], %(expected)s::text[], %(new)s::text[])
    AS swap (namespace, name, expected, new)
WHERE catalog_name = '{CATALOG_NAME}' AND table_namespace = swap.namespace AND table_name = swap.name
"""

DELETE: Final[LiteralString] = f"DELETE FROM epochs_record AS record USING {_WANTED} WHERE {_AT_ADDRESS}"

ANNOUNCE: Final[LiteralString] = f"SELECT pg_notify('{CHANNEL}', %(csn)s || ' ' || %(domain)s)"

_COLUMNS: Final[Mapping[str, LiteralString]] = {
    "kind": "text",
    "partition": "text",
    "item": "text",
    "state": "text",
    "interval_start": "bigint",
    "interval_end": "bigint",
    "body": "text",
}
"""What differs between the rows of one transaction."""

CREATE: Final[LiteralString] = f"""
INSERT INTO epochs_record (domain, version, csn, updated_at, {", ".join(_COLUMNS)})
SELECT %(domain)s::text, %(version)s::bigint, %(csn)s::bigint, %(updated_at)s::bigint, written.*
FROM unnest({", ".join(f"%({name})s::{kind}[]" for name, kind in _COLUMNS.items())}) AS written
"""
"""Fails when one of the records is there: somebody made it since this transaction looked."""

PUT: Final[LiteralString] = f"""{CREATE} ON CONFLICT (domain, kind, partition, item) DO UPDATE SET
    version = excluded.version, csn = excluded.csn, updated_at = excluded.updated_at, state = excluded.state,
    interval_start = excluded.interval_start, interval_end = excluded.interval_end, body = excluded.body
"""

LOCK_SCHEMA: Final[LiteralString] = "SELECT pg_advisory_xact_lock(hashtext('epochs_alembic_version'))"


def locking(strength: LiteralString) -> LiteralString:
    """Return what reads the versions of records and locks those that exist, one after the other."""
    return f"""
SELECT found.* FROM {_WANTED} CROSS JOIN LATERAL (
    SELECT record.kind, record.partition, record.item, version FROM epochs_record AS record
    WHERE {_AT_ADDRESS} LIMIT 1 {strength}
) AS found
"""


FOR_SHARE: Final = locking("FOR SHARE")
FOR_UPDATE: Final = locking("FOR UPDATE")


def in_order(keys: Iterable[Key]) -> list[Key]:
    """Return *keys* in the order in which all transactions lock them."""
    return sorted(keys, key=lambda key: (key.kind.value, key.partition, key.item))


def at(domain: str, keys: Iterable[Key]) -> dict[str, Any]:
    """Return the parameters of a statement about *keys*, in order."""
    listed = in_order(keys)
    return {
        "domain": domain,
        "kinds": [key.kind.value for key in listed],
        "partitions": [key.partition for key in listed],
        "items": [key.item for key in listed],
    }


def of_rows(written: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the parameters of a statement that writes rows of one transaction; there must be one."""
    ordered = sorted(written, key=lambda row: (row["kind"], row["partition"], row["item"]))
    alike = {name: ordered[0][name] for name in ("domain", "version", "csn", "updated_at")}
    return alike | {name: [row[name] for row in ordered] for name in _COLUMNS}


def of_swaps(swaps: Iterable[CatalogSwap]) -> dict[str, Any]:
    """Return the parameters of a statement about catalog tables, sorted: all lock them in one order."""
    listed = sorted(swaps, key=lambda swap: (swap.namespace, swap.table))
    return {
        "namespaces": [swap.namespace for swap in listed],
        "tables": [swap.table for swap in listed],
        "expected": [swap.expected for swap in listed],
        "new": [swap.new for swap in listed],
    }
