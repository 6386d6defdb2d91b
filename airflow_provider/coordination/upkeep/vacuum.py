"""Vacuum: end expired claims, and delete the versions of tables that are superseded and unclaimed (R24).

Output of attempts that ended without a commit goes, too (R16).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from airflow_provider.coordination.commits.claims import claimed_versions, end_expired
from airflow_provider.coordination.commits.expired_states import (
    retention_of,
)
from airflow_provider.coordination.commits.places import refuse_elsewhere_of
from airflow_provider.coordination.commits.sealed import refuse_sealed, refuse_sealed_domain
from airflow_provider.coordination.commits.versions import (
    forget_versions,
    newest_version,
    remember_versions,
    split_versions,
    version_pages,
)
from airflow_provider.coordination.context import Context
from airflow_provider.coordination.upkeep.compact import end_forgotten
from airflow_provider.coordination.upkeep.dropped_files import Drops, vacuum_dropped
from airflow_provider.coordination.upkeep.expire import page_ranges, retried
from airflow_provider.coordination.upkeep.left_members import end_left_over
from airflow_provider.coordination.upkeep.orphans import fence_forgotten, orphans
from airflow_provider.domain.errors import Unavailable
from airflow_provider.domain.identifiers import DomainName, TableName
from airflow_provider.domain.records import (
    Key,
    Stamped,
    retention_key,
    table_key,
    topology_key,
)
from airflow_provider.domain.retention import (
    NOTHING_SUPERSEDED,
    Claimed,
    Superseded,
    Version,
    VersionsRecord,
)
from airflow_provider.domain.topology import Table
from airflow_provider.domain.version import TableRecord
from airflow_provider.stores.base import (
    MetadataStore,
    Put,
    Reading,
    SameStore,
    Transaction,
    pages,
    unchanged,
)
from airflow_provider.tables.projection import attempted


@dataclass(frozen=True, kw_only=True, slots=True)
class Vacuumed:
    """Outcome of one vacuum.

    :param horizon: states resolved before this CSN, and superseded since, are gone unless they were claimed.
    :param ended: expired claims that were ended: ids of leases, and epochs whose attempts were silent.
    :param deleted: URIs of deleted files. :param claimed: number of superseded versions under a claim.
    :param orphans: places, deleted too, of attempts and of compactions that ended without a commit.
    """

    horizon: int
    ended: tuple[str, ...]
    deleted: tuple[str, ...]
    claimed: int
    orphans: tuple[str, ...] = ()


def vacuum(context: Context, domain: DomainName) -> Vacuumed:
    """End expired claims, and delete unclaimed versions; see :meth:`~.retention.Retention.vacuum`."""
    retried(context, lambda: refuse_sealed_domain(context.store, domain))
    retried(context, lambda: refuse_elsewhere_of(context.store, domain, context.formats))
    forgotten = retried(context, lambda: fence_forgotten(context.store, domain, context.defaults))
    left_over = end_left_over(context, domain)
    ended = [*forgotten, *left_over, *end_expired(context.store, domain)]
    drops = Drops.of(context.store, domain)
    tables = [TableName(stamped.key.item) for stamped in pages(context.store, domain, TableRecord)]
    names = list(dict.fromkeys([*tables, *drops.names]))
    for name in names:
        retried(context, lambda name=name: _split(context, domain, name))  # type: ignore[misc]
    while retried(context, lambda: page_ranges(context, domain)):
        pass
    while retried(context, lambda: _advance(context, domain)):
        pass
    horizon = retention_of(domain, context.store.read(domain, [retention_key(domain)])).horizon
    # Claims after the horizon: no new claim on what was superseded at it can appear (docs/decisions/retention.md).
    claimed = claimed_versions(context.store, domain)
    deleted: list[str] = []
    left = 0
    for name in names:
        for page in version_pages(context.store, domain, name):
            found = superseded(context.store, name, page, horizon, claimed, drops=drops)
            went, found = _deleted(context, page.key, name, found)
            deleted += went
            left += found.claimed
    vacuumed = [*vacuum_dropped(context, domain, horizon), *_vacuum_orphans(context, domain)]
    vacuumed += end_forgotten(context, domain, names)
    return Vacuumed(
        horizon=horizon, ended=tuple(ended), deleted=tuple(deleted), claimed=left, orphans=tuple(vacuumed)
    )


def _vacuum_orphans(context: Context, domain: DomainName) -> list[str]:
    """Delete orphans; return their places."""
    deleted = []
    for orphan in orphans(context.store, context.formats, domain, context.defaults):
        context.formats[orphan.place.table.format].roll_back(orphan.place)
        deleted.append(orphan.place.uri)
    return deleted


def _split(context: Context, domain: DomainName, name: TableName) -> None:
    split_versions(context.store, domain, name, context.defaults.versions_in_page)


def _advance(context: Context, domain: DomainName) -> bool:
    """Move the horizon over some commits older than any cut without a lease; return whether to go on.

    At most ``versions_in_page`` at a time, so that no record or transaction grows with the backlog.
    """
    key, topology = retention_key(domain), topology_key(domain)
    reading = context.store.read(domain, [key, topology])
    refuse_sealed(domain, reading.get(topology))
    record, most = retention_of(domain, reading), context.defaults.versions_in_page
    horizon, commits = record.horizon, context.store.changes(domain, record.horizon, limit=most)
    versions: dict[TableName, list[Version]] = {}
    for commit in commits:
        if commit.at + context.defaults.retention_grace > reading.now:
            break
        horizon = commit.csn or horizon
        for delta in commit.record.tables:
            if delta.ref is not None:
                versions.setdefault(delta.table, []).append(Version(csn=horizon, ref=delta.ref.lasting()))
    if horizon == record.horizon:
        return False
    for name, found in versions.items():  # before the horizon moves, so that a crash loses none
        remember_versions(context.store, domain, name, found, most)
    _write(context, reading, key, replace(record, horizon=horizon), topology)
    return len(commits) == most and commits[-1].csn == horizon


def _deleted(
    context: Context, key: Key[VersionsRecord], name: TableName, found: Superseded
) -> tuple[list[str], Superseded]:
    """Delete the versions *found* at *key*; return the URIs, and the findings at the time of deletion.

    Another vacuum may delete versions that this one found claimed, or newest, a moment ago, and keeps. Their files
    are missing then, and nothing was deleted: decide anew. If the findings are the same, the error stands.
    """
    while found.gone:
        try:
            return _delete(context, key, name, found), found
        except Unavailable:
            before, found = found, superseded_now(context.store, name, key)
            if found == before:
                raise
    return [], found


def _delete(context: Context, key: Key[VersionsRecord], name: TableName, found: Superseded) -> list[str]:
    """Delete the files of superseded versions, except those that others share; return their URIs."""
    table = Table(name, domain=key.domain, kind=found.kind, format=found.gone[-1].ref.format)
    if found.ref is not None:  # a lagging pointer would keep superseded files
        attempted(context.formats[table.format], table, found.ref)
    refs = [version.ref for version in found.gone]
    deleted = context.formats[table.format].vacuum(table, refs, found.kept)
    retried(context, lambda: forget_versions(context.store, key, found.gone))
    return deleted


def _write(context: Context, reading: Reading, key: Key[Any], record: Any, *others: Key[Any]) -> None:
    """Write *record*; require its key and *others* unchanged since *reading*."""
    context.store.transact(
        Transaction(
            domain=key.domain,
            store=SameStore(reading.head.incarnation),
            requires=tuple(unchanged(reading, required) for required in (key, *others)),
            updates=(Put(key, record),),
        )
    )


def superseded(
    store: MetadataStore,
    name: TableName,
    page: Stamped[VersionsRecord],
    horizon: int,
    claimed: Claimed,
    *,
    drops: Drops,
) -> Superseded:
    """Divide the versions of *page*; see :meth:`~airflow_provider.domain.retention.VersionsRecord.divided`."""
    domain, key = page.key.domain, table_key(page.key.domain, name)
    newest = drops.still_newest(name, newest_version(store, domain, name, horizon), horizon)
    if not page.record.superseded(horizon, newest):
        return NOTHING_SUPERSEDED
    stamped = store.read(domain, [key]).get(key)
    kind = drops.kind(name, None if stamped is None else stamped.record.kind)
    if kind is None:  # it was dropped since these lists were read: the next vacuum knows of it
        return NOTHING_SUPERSEDED
    ref = None if stamped is None else stamped.record.ref
    return page.record.divided(horizon, newest, claimed.get(name, ()), ref, kind)


def superseded_now(store: MetadataStore, name: TableName, key: Key[VersionsRecord]) -> Superseded:
    """Divide the page at *key* by the present records; a deleted page has nothing to delete."""
    domain = key.domain
    reading = store.read(domain, [key, retention_key(domain)])
    page = reading.get(key)
    if page is None:
        return NOTHING_SUPERSEDED
    # Claims after the horizon: no new claim on what was superseded at it can appear (docs/decisions/retention.md).
    horizon = retention_of(domain, reading).horizon
    claimed = claimed_versions(store, domain)
    return superseded(store, name, page, horizon, claimed, drops=Drops.of(store, domain))
