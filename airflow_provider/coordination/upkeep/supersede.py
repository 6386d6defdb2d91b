"""Superseded versions of a table that a vacuum may delete, by the store's records at one moment (R24)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from airflow_provider.coordination.commits.claims import claimed_versions
from airflow_provider.coordination.commits.expired_states import retention_of
from airflow_provider.coordination.commits.versions import newest_version
from airflow_provider.domain.identifiers import TableName
from airflow_provider.domain.records import Key, Stamped, retention_key, table_key
from airflow_provider.domain.retention import Version, VersionsRecord
from airflow_provider.domain.version import TableRecord, TableRef
from airflow_provider.stores.base import MetadataStore

Claimed = Mapping[TableName, Sequence[TableRef]]
"""The versions of each table that a lease, an attempt or an open epoch needs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Superseded:
    """The versions of one page that the table has moved on from.

    :param gone: unclaimed versions, to be deleted.
    :param kept: versions whose files must stay, also those that they share with *gone*.
    :param claimed: number of versions that are superseded, but claimed.
    :param record: of the table; None without anything to delete: it was not read.
    """

    gone: tuple[Version, ...] = ()
    kept: tuple[TableRef, ...] = ()
    claimed: int = 0
    record: TableRecord | None = None


def superseded(
    store: MetadataStore, name: TableName, page: Stamped[VersionsRecord], horizon: int, claimed: Claimed
) -> Superseded:
    """Divide the versions of *page* by the newest version at *horizon* and by *claimed*.

    Files shared with later pages either go with those pages, or are in ``kept``.
    """
    domain, needed = page.key.domain, claimed.get(name, ())
    newest = newest_version(store, domain, name, horizon)
    old = page.record.superseded(horizon, newest)
    gone = tuple(version for version in old if version.ref not in needed)
    if not gone:
        return Superseded(claimed=len(old))
    key = table_key(domain, name)
    record = store.read(domain, [key]).of(key).record
    staying = [
        version.ref for version in (*([newest] if newest else []), *page.record.without(gone).versions)
    ]
    kept = (*needed, *staying, *([record.ref] if record.ref else []))
    return Superseded(gone=gone, kept=kept, claimed=len(old) - len(gone), record=record)


def superseded_now(store: MetadataStore, name: TableName, key: Key[VersionsRecord]) -> Superseded:
    """Divide the page at *key* by the present records; a deleted page has nothing to delete."""
    domain = key.domain
    reading = store.read(domain, [key, retention_key(domain)])
    page = reading.get(key)
    if page is None:
        return Superseded()
    # Claims after the horizon: no new claim on what was superseded at it can appear (docs/decisions/retention.md).
    horizon = retention_of(domain, reading).horizon
    return superseded(store, name, page, horizon, claimed_versions(store, domain))
