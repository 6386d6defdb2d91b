"""Versions of each table that are not deleted yet: pages that a vacuum writes and deletes (R24)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from airflow_provider.domain.identifiers import DomainName, TableName
from airflow_provider.domain.records import Key, Stamped, commit_item, versions_key, whole_versions_key
from airflow_provider.domain.retention import Version, VersionsRecord
from airflow_provider.stores.base import (
    Absent,
    Delete,
    Exists,
    MetadataReader,
    MetadataStore,
    Put,
    SameStore,
    Transaction,
    pages,
    scan,
    unchanged,
)


def version_pages(
    reader: MetadataReader, domain: DomainName, table: TableName
) -> Iterator[Stamped[VersionsRecord]]:
    """Yield the pages of a table, oldest first, each read when it is reached."""
    return pages(reader, domain, VersionsRecord, table, size=1)


def newest_version(
    reader: MetadataReader, domain: DomainName, table: TableName, horizon: int
) -> Version | None:
    """Return the version that was the table's newest at *horizon*, if the pages have it."""
    end = commit_item(horizon + 1)
    last = scan(reader, domain, VersionsRecord, table, end=end, limit=1, reverse=True)
    record = last[0].record if last else None
    return record.newest_at(horizon) if record else None


def remember_versions(
    store: MetadataStore, domain: DomainName, table: TableName, commits: Sequence[Version], most: int
) -> None:
    """Record later versions of a table, in pages of at most *most*; versions that are recorded change nothing.

    :raises RequirementFailed: another vacuum was faster.
    """
    here = SameStore(store.read(domain, []).head.incarnation)
    found = scan(store, domain, VersionsRecord, table, limit=1, reverse=True)
    last = found[0] if found else None
    before = VersionsRecord() if last is None else last.record
    first, *more = before.with_commits(commits, most)
    if first != before:
        key = versions_key(domain, table, first.versions[0].csn) if last is None else last.key
        required = Absent(key) if last is None else Exists(key, last.version)
        _write(store, here, required, Put(key, first))
    for page in more:
        key = versions_key(domain, table, page.versions[0].csn)
        _write(store, here, Absent(key), Put(key, page))


def forget_versions(store: MetadataStore, key: Key[VersionsRecord], gone: Sequence[Version]) -> None:
    """Remove *gone* from the page at *key*; delete an empty page.

    :raises RequirementFailed: another vacuum was faster.
    """
    reading = store.read(key.domain, [key])
    stamped = reading.get(key)
    if stamped is not None:
        left = stamped.record.without(gone)
        update = Put(key, left) if left.versions else Delete(key)
        _write(store, SameStore(reading.head.incarnation), Exists(key, stamped.version), update)


def split_versions(store: MetadataStore, domain: DomainName, table: TableName, most: int) -> None:
    """Split the record of all versions of a table, which older stores have, into pages.

    :raises RequirementFailed: another vacuum was faster.
    """
    whole = whole_versions_key(domain, table)
    reading = store.read(domain, [whole])
    stamped = reading.get(whole)
    if stamped is None:
        return
    here = SameStore(reading.head.incarnation)
    versions = stamped.record.versions
    for start in range(0, len(versions), most):
        chunk = versions[start : start + most]
        key = versions_key(domain, table, chunk[0].csn)
        known = store.read(domain, [key])
        stored = known.get(key)  # an interrupted split wrote it, and a vacuum may have taken some away since
        all_of_it = {
            version.csn: version for version in (*chunk, *(stored.record.versions if stored else ()))
        }
        page = VersionsRecord(versions=tuple(all_of_it[csn] for csn in sorted(all_of_it)))
        _write(store, here, unchanged(known, key), Put(key, page))
    _write(store, here, Exists(whole, stamped.version), Delete(whole))


def _write(store: MetadataStore, here: SameStore, required: Exists | Absent, update: Put | Delete) -> None:
    domain = required.key.domain
    store.transact(Transaction(domain=domain, store=here, requires=(required,), updates=(update,)))
