"""Statements of a transaction for psycopg, which sends several at a time; values are bound, never written in.

Lists travel as JSON, so that a statement's text is the same for any number of records and is prepared once.
Each address is one look-up by the whole primary key, in the order given, whatever the planner believes about
the table. (``LATERAL … LIMIT 1`` leaves it no other plan.)
"""

# ruff: noqa: S608 - put together from constants of this module; values are bound
from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, LiteralString
from zlib import crc32

import msgspec
from psycopg import sql

from airflow_provider.domain.records import Key, Stamped
from airflow_provider.stores.base import CATALOG_NAME, CatalogSwap, Exists
from airflow_provider.stores.requests import CheckedTransaction
from airflow_provider.stores.sql.dialect import wanted_of
from airflow_provider.stores.sql.postgresql.incarnation import INCARNATION
from airflow_provider.stores.sql.rows import of_swap

CHANNEL = "epochs"
"""Channel on which commits are announced, as the CSN, a blank, the domain."""

_NOW_US = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
_WANTED = "json_to_recordset(%(keys)s::json) AS wanted (kind text, partition text, item text)"
_KNOWN = (
    "json_to_recordset(%(wanted)s::json) "
    "AS part (kind text, partition text, items text[], versions bigint[], times bigint[]) "
    "CROSS JOIN LATERAL (SELECT part.kind, part.partition, listed.* "
    "FROM unnest(part.items, part.versions, part.times) AS listed (item, version, updated_at)) AS wanted"
)
_AT_ADDRESS = (
    "record.domain = %(domain)s AND record.kind = wanted.kind AND record.partition = wanted.partition "
    "AND record.item = wanted.item"
)

GREETING: Final = sql.SQL("pg_backend_pid(), pg_is_in_recovery()")

_LOOKED: Final = f"""
SELECT found.*, {INCARNATION} AS incarnation, (SELECT csn FROM epochs_head WHERE domain = %(domain)s) AS head,
    {_NOW_US} AS now_us
FROM epochs_store AS store LEFT JOIN (
"""
_DIFFERING: Final = f"""
    SELECT wanted.kind, wanted.partition, wanted.item, there.*
    FROM {_KNOWN} LEFT JOIN LATERAL (
        SELECT version, csn, updated_at, body FROM epochs_record AS record WHERE {_AT_ADDRESS} LIMIT 1
    ) AS there ON true
    WHERE there.version IS DISTINCT FROM wanted.version OR there.updated_at IS DISTINCT FROM wanted.updated_at
"""

LOOK: Final[LiteralString] = f"""
{_LOOKED} {_DIFFERING}) AS found ON true
"""
"""Head, time, and the records that differ from what the caller knows, in one snapshot.

If no record differs, there is one row without a kind. A row without a version says that the record is gone, as in
:data:`airflow_provider.stores.sql.sqlite_statements.DIFFERING`.
"""

POINTER: Final = "pointer"
"""The kind of those rows of :data:`LOOK_WITH_POINTERS` that hold name and pointer of a catalog table, not a record."""

LOOK_WITH_POINTERS: Final[LiteralString] = f"""
{_LOOKED} {_DIFFERING} UNION ALL
    SELECT '{POINTER}', '', named.table_name, NULL, NULL, NULL, named.metadata_location
    FROM unnest(%(pointers)s::text[]) AS wanted (name) CROSS JOIN LATERAL (
        SELECT table_name, metadata_location FROM iceberg_tables
        WHERE catalog_name = '{CATALOG_NAME}' AND table_namespace = %(domain)s AND table_name = wanted.name LIMIT 1
    ) AS named
) AS found ON true
"""

_PUBLISH_QUEUE: Final = 0x65706F63
"""Class of the advisory locks of publish queues, apart from those of other programs."""

_OF_STORE: Final = 0x65706F64
"""Advisory lock that every transaction shares, so that a change of the store's identity waits for all of them."""

BEGIN: Final[LiteralString] = "BEGIN ISOLATION LEVEL READ COMMITTED"
"""Each statement sees what was committed before it. A transaction decides only on rows that it has locked."""
ISOLATION: Final = {"default_transaction_isolation": "read committed"}
"""Setting that gives transactions without a :data:`BEGIN` the same isolation."""

SHARE_STORE: Final[LiteralString] = f"SELECT pg_advisory_xact_lock_shared({_OF_STORE}, 0)"
"""Sent before the statement that reads the incarnation, so that this one sees all that was committed until the lock
was granted."""

LOCK_STORE: Final[LiteralString] = f"SELECT pg_advisory_xact_lock({_OF_STORE}, 0)"

LOCK_HEADS: Final[LiteralString] = """
DO $$ BEGIN
    IF to_regclass('epochs_head') IS NOT NULL THEN LOCK TABLE epochs_head IN SHARE ROW EXCLUSIVE MODE; END IF;
END $$
"""
"""Taken before :data:`LOCK_STORE`, in the order of :data:`TAKE_NUMBER`. A publisher that waits for the store has locked
its head already: a migration that held the store and then wanted the heads would deadlock with it. Readers go on."""

TAKE_NUMBER: Final[LiteralString] = f"""
INSERT INTO epochs_head AS head (domain, csn) VALUES (%(domain)s, 1)
ON CONFLICT (domain) DO UPDATE SET csn = head.csn + 1 RETURNING csn, pg_advisory_xact_lock_shared({_OF_STORE}, 0)
"""
"""Raises the head and locks its row; then locks the store's identity, as :data:`SHARE_STORE` does."""

_HELD: Final[LiteralString] = f"""
    json_to_recordset(%(keys)s::json)
        AS wanted (kind text, partition text, item text, changed boolean, required boolean, expected bigint)
    LEFT JOIN LATERAL (
        SELECT version FROM epochs_record AS record WHERE wanted.changed AND {_AT_ADDRESS} LIMIT 1 FOR UPDATE
    ) AS written ON true
    LEFT JOIN LATERAL (
        SELECT version FROM epochs_record AS record WHERE NOT wanted.changed AND {_AT_ADDRESS} LIMIT 1 FOR SHARE
    ) AS kept ON true
    CROSS JOIN LATERAL (SELECT coalesce(written.version, kept.version) AS version) AS held
"""
"""Locks the records that exist, in the order of the keys, and reads their versions.

A record that the transaction changes is locked FOR UPDATE; one that must only stay as it is FOR SHARE, so that
several transactions can require it at the same time.
"""

_VERSIONS: Final[LiteralString] = """
    json_agg(json_build_array(wanted.kind, wanted.partition, wanted.item, held.version))
        FILTER (WHERE held.version IS NOT NULL)
"""

HOLD: Final[LiteralString] = f"""
SELECT (SELECT {_VERSIONS} FROM {_HELD}) AS held,
    {INCARNATION} AS incarnation, nextval('epochs_version') AS version, {_NOW_US} AS at_us
FROM epochs_store AS store
"""
"""Locks and reads the versions on which a transaction decides; then takes the stamp for its writes."""

POINTERS: Final[LiteralString] = f"""
SELECT found.* FROM json_to_recordset(%(swaps)s::json) AS wanted (namespace text, "table" text)
CROSS JOIN LATERAL (
    SELECT table_namespace, table_name, metadata_location FROM iceberg_tables
    WHERE catalog_name = '{CATALOG_NAME}' AND table_namespace = wanted.namespace AND table_name = wanted.table
    LIMIT 1 FOR UPDATE
) AS found
"""

SWAP: Final[LiteralString] = f"""
UPDATE iceberg_tables SET metadata_location = swap.new, previous_metadata_location = swap.expected
FROM json_to_recordset(%(swaps)s::json)
    AS swap (namespace text, "table" text, expected text, new text)
WHERE catalog_name = '{CATALOG_NAME}' AND table_namespace = swap.namespace AND table_name = swap.table
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
"""The columns in which rows of one transaction differ."""

CREATE: Final[LiteralString] = f"""
INSERT INTO epochs_record (domain, version, csn, updated_at, {", ".join(_COLUMNS)})
SELECT %(domain)s::text, %(version)s::bigint, %(csn)s::bigint, %(updated_at)s::bigint, written.*
FROM json_to_recordset(%(rows)s::json)
    AS written ({", ".join(f"{name} {kind}" for name, kind in _COLUMNS.items())})
"""
"""Fails if one of the records exists: another transaction has created it since this one looked."""

_OVER: Final[LiteralString] = """ON CONFLICT (domain, kind, partition, item) DO UPDATE SET
    version = excluded.version, csn = excluded.csn, updated_at = excluded.updated_at, state = excluded.state,
    interval_start = excluded.interval_start, interval_end = excluded.interval_end, body = excluded.body
"""

PUT: Final[LiteralString] = f"{CREATE} {_OVER}"

_STAMPED: Final[LiteralString] = f"""
INSERT INTO epochs_record (domain, version, csn, updated_at, {", ".join(_COLUMNS)})
SELECT %(domain)s::text, stamp.version, NULL, stamp.at_us, written.*
FROM stamp CROSS JOIN json_to_recordset
"""
_WRITTEN: Final[LiteralString] = (
    f"AS written ({', '.join(f'{name} {kind}' for name, kind in _COLUMNS.items())}) WHERE stamp.fine"
)

AT_ONCE: Final[LiteralString] = f"""
WITH held AS MATERIALIZED (
    SELECT {_VERSIONS} AS versions,
        coalesce(bool_and(NOT wanted.required OR held.version IS NOT DISTINCT FROM wanted.expected), true) AS fine
    FROM {_HELD}
), stamp AS MATERIALIZED (
    SELECT held.versions, held.fine AND coalesce(incarnation = %(incarnation)s, true) AS fine, incarnation,
        nextval('epochs_version') AS version, {_NOW_US} AS at_us
    FROM held CROSS JOIN (SELECT {INCARNATION} AS incarnation FROM epochs_store AS store) AS here
), made AS (
    {_STAMPED} (%(made)s::json) {_WRITTEN}
), put AS (
    {_STAMPED} (%(put)s::json) {_WRITTEN} {_OVER}
)
SELECT versions, incarnation, version, at_us FROM stamp
"""
"""A whole transaction in one statement: without number, deletions and swaps.

``held`` locks the records and compares them, ``stamp`` takes version and time, ``made`` and ``put`` write. Why it can
decide and write in one step:

* Nothing is written unless ``fine`` says that all requirements hold; the caller finds the one that failed in the
  versions that are returned.
* Each part reads from the one before it, and MATERIALIZED keeps the planner from merging or repeating them. So the
  locks are taken once, and before the stamp: writers of one record get rising versions and times.
* A row that another transaction has changed while we waited for its lock is read again in its newest version.
* A record that must be absent has no row to lock. ``made`` inserts it without ON CONFLICT: if another transaction has
  created it since our snapshot, the whole statement fails with 23505, and the next try finds the record.
* ``made`` and ``put`` run to their end, although the final SELECT does not read them.
"""

LOCK_SCHEMA: Final[LiteralString] = "SELECT pg_advisory_xact_lock(hashtext('epochs_alembic_version'))"


def set_for(settings: Mapping[str, str], *, local: bool) -> sql.Composed:
    """Return the expressions of a SELECT that change *settings*, for the session or (*local*) for its transaction."""
    return sql.SQL(", ").join(
        sql.SQL("set_config({}, {}, {})").format(name, value, local) for name, value in settings.items()
    )


def opened(settings: Mapping[str, str]) -> sql.Composed:
    """Return the text that begins a transaction with *settings* in a pooler's session, in one message.

    On a standby it raises an error: behind a pooler, any transaction may meet one.
    """
    return sql.SQL("BEGIN; SELECT {}, CASE WHEN pg_is_in_recovery() THEN pg_current_wal_lsn() END").format(
        set_for(settings, local=True)
    )


def sharing(settings: Mapping[str, str]) -> sql.Composed:
    """Return :data:`SHARE_STORE` together with *settings* for the transaction, for a pooler's session."""
    return sql.SQL("{}, {}").format(sql.SQL(SHARE_STORE), set_for(settings, local=True))


def telling(settings: Mapping[str, str]) -> sql.Composed:
    """Return the statement that changes *settings* for the transaction and locks nothing, for a pooler's session."""
    return sql.SQL("SELECT {}").format(set_for(settings, local=True))


def entering_queue(domain: str, timeout: timedelta) -> sql.Composed:
    """Return the text that opens a transaction and waits in it for the domain's turn, in one message."""
    return sql.SQL("BEGIN; SET LOCAL lock_timeout = {}; SELECT pg_advisory_xact_lock({}, {})").format(
        max(1, round(timeout.total_seconds() * 1000)), _PUBLISH_QUEUE, crc32(domain.encode()) - 2**31
    )


def in_order(keys: Iterable[Key[Any]]) -> list[Key[Any]]:
    """Return *keys* in the order in which all transactions lock them."""
    return sorted(keys, key=lambda key: (key.kind.value, key.partition, key.item))


def looked_for(
    domain: str, keys: Iterable[Key[Any]], known: Mapping[Key[Any], Stamped[Any]]
) -> dict[str, Any]:
    """Return the parameters of :data:`LOOK`; records that are as *known* are not sent again."""
    return {"domain": domain, "wanted": msgspec.json.encode(wanted_of(keys, known)).decode()}


def at(domain: str, keys: Iterable[Key[Any]]) -> dict[str, Any]:
    """Return the parameters of a statement about *keys*, in the order of locking."""
    return {"domain": domain, "keys": _listed(_address(key) for key in in_order(keys))}


def held(request: CheckedTransaction) -> dict[str, Any]:
    """Return the parameters of :data:`HOLD` and :data:`AT_ONCE`: the records to lock, and the expected versions."""
    changed = {*request.deletes, *(put.key for put, _ in request.puts)}
    expected = {
        requirement.key: requirement.version if isinstance(requirement, Exists) else None
        for requirement in request.requires
    }
    listed = [
        _address(key)
        | {"changed": key in changed, "required": key in expected, "expected": expected.get(key)}
        for key in in_order(changed | expected.keys())
    ]
    incarnation = request.store.incarnation if request.store else None
    return {"domain": request.domain, "keys": _listed(listed), "incarnation": incarnation}


def of_rows(written: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the parameters of a statement that writes rows of one transaction; *written* must not be empty."""
    alike = {name: written[0][name] for name in ("domain", "version", "csn", "updated_at")}
    return alike | {"rows": listed_rows(written)}


def listed_rows(written: Iterable[Mapping[str, Any]]) -> str:
    """Return rows as a parameter, in the order of locking, with the columns in which they differ."""
    ordered = sorted(written, key=lambda row: (row["kind"], row["partition"], row["item"]))
    return _listed({name: row[name] for name in _COLUMNS} for row in ordered)


def of_swaps(swaps: Iterable[CatalogSwap]) -> dict[str, Any]:
    """Return the parameters of a statement about catalog tables, sorted: all transactions lock them in one order."""
    ordered = sorted(swaps, key=lambda swap: (swap.namespace, swap.table))
    return {"swaps": _listed(map(of_swap, ordered))}


def _address(key: Key[Any]) -> dict[str, Any]:
    return {"kind": key.kind.value, "partition": key.partition, "item": key.item}


def _listed(rows: Iterable[Mapping[str, Any]]) -> str:
    return msgspec.json.encode(list(rows)).decode()
