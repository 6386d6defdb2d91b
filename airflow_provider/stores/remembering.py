"""Remember the records that a client has read, so that a store sends only those written since.

A hint, never an answer: each read names the versions that the client knows, and the store compares them with its own
in the same look that reads the head (docs/decisions/remembered-records.md). A version of a key is never used twice, so
an equal version is the same record. The time of the write is compared too, because a store that was restored from a
backup gives out versions again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.records import Key, Kind, Stamped

READ_AGAIN = frozenset({Kind.TOPOLOGY, Kind.JOB, Kind.TABLE, Kind.REWRITE_LOG, Kind.SCHEMA})
"""Kinds whose records every cut and every epoch reads again."""

MOST_REMEMBERED = 4096
"""Maximum number of remembered records; when it is reached, all are forgotten."""


class Remembered:
    """Records that one client of a store remembers. Threads may share it: records never change."""

    def __init__(self) -> None:
        self._records: dict[Key[Any], Stamped[Any]] = {}

    def get(self, key: Key[Any]) -> Stamped[Any] | None:
        return self._records.get(key)

    def among(self, domain: DomainName, keys: Iterable[Key[Any]]) -> dict[Key[Any], Stamped[Any]]:
        """Return the remembered records of those *keys* that belong to *domain*."""
        get = self._records.get
        return {key: stamped for key in keys if (stamped := get(key)) is not None and key.domain == domain}

    def keep(self, stamped: Stamped[Any]) -> Stamped[Any]:
        """Remember *stamped* if it is of a kind that is read again; return it."""
        if stamped.key.kind in READ_AGAIN:
            if len(self._records) >= MOST_REMEMBERED:
                self._records.clear()
            self._records[stamped.key] = stamped
        return stamped
