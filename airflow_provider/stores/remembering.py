"""Records that a client has read before, so that it is told only what has been written since.

A hint, never an answer: each read says which versions it knows, and the store compares them with its own, all in
the one look that also reads the head. A version of a key is never used twice, so an equal one is the same record;
the time of the write is compared too, because a store that was restored from a backup counts on from where it was.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.records import Key, Kind, Stamped

READ_AGAIN = frozenset({Kind.TOPOLOGY, Kind.JOB, Kind.TABLE, Kind.FENCE, Kind.SCHEMA})
"""Kinds whose records every cut and every epoch looks at again."""

MOST_REMEMBERED = 4096
"""So many of them are remembered; when there would be more, all are forgotten first."""


class Remembered:
    """What one client of a store remembers. Threads may share it: records never change."""

    def __init__(self) -> None:
        self._records: dict[Key, Stamped[Any]] = {}

    def get(self, key: Key) -> Stamped[Any] | None:
        return self._records.get(key)

    def among(self, domain: DomainName, keys: Iterable[Key]) -> dict[Key, Stamped[Any]]:
        """Return those of *keys* that are remembered and of *domain*, as they were."""
        get = self._records.get
        return {key: stamped for key in keys if (stamped := get(key)) is not None and key.domain == domain}

    def keep(self, stamped: Stamped[Any]) -> Stamped[Any]:
        """Remember *stamped* if it is of a kind that is read again; return it."""
        if stamped.key.kind in READ_AGAIN:
            if len(self._records) >= MOST_REMEMBERED:
                self._records.clear()
            self._records[stamped.key] = stamped
        return stamped
