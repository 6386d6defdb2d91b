"""Incarnation of a store on PostgreSQL, which includes the server's own history (R33; docs/decisions/failover.md)."""

from __future__ import annotations

from typing import Final, LiteralString

_LINEAGE: Final = """(
    (SELECT system_identifier FROM pg_control_system()) || '/' || left(pg_walfile_name(pg_current_wal_lsn()), 8)
)"""
"""The history that the server is on: the identity of its data directory, and its timeline, which every promotion
changes. The expression raises an error on a standby.
"""
LINEAGE: Final[LiteralString] = f"SELECT {_LINEAGE}"

INCARNATION: Final = (
    "(store.incarnation || CASE WHEN to_jsonb(store) ->> 'lineage' IS NULL THEN '' "
    f"WHEN to_jsonb(store) ->> 'lineage' = {_LINEAGE} THEN '' ELSE '@' || {_LINEAGE} END)"
)
"""Incarnation of ``epochs_store AS store``: the stored one, with the server's history behind it if that is another one
than was stored.

The row is read as JSON, because a schema of format 1 lacks the column ``lineage``.
"""
