"""Retention of single states: hidden from readers first, deleted when no claim names them (R24)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from random import Random, SystemRandom
from typing import Any, TypeVar, cast

from airflow_provider.coordination.attempts.reserve import await_unreserved
from airflow_provider.coordination.commits.claims import claimed_versions, end_expired
from airflow_provider.coordination.commits.commit import CommitBuilder
from airflow_provider.coordination.commits.dependents import reading_jobs
from airflow_provider.coordination.commits.expired_states import (
    SINCE_FORMAT,
    expired_pages,
    expired_states,
    hull_of,
    retention_of,
)
from airflow_provider.coordination.commits.inactive_jobs import inactive_jobs
from airflow_provider.coordination.commits.sealed import refuse_sealed, refuse_sealed_domain
from airflow_provider.coordination.commits.table_commits import (
    expiry,
    prepared_or_moved,
    told_hull,
    written_out,
)
from airflow_provider.coordination.commits.versions import (
    forget_versions,
    remember_versions,
    split_versions,
    version_pages,
)
from airflow_provider.coordination.commits.warehouses import refuse_other_warehouse, refuse_other_warehouse_of
from airflow_provider.coordination.reading.resolve import names_of
from airflow_provider.coordination.retrying import retry
from airflow_provider.coordination.upkeep.orphans import fence_forgotten, orphans
from airflow_provider.coordination.upkeep.supersede import Superseded, superseded, superseded_now
from airflow_provider.domain.clock import Clock, SystemClock
from airflow_provider.domain.cut import newest_version, reached
from airflow_provider.domain.defaults import DEFAULTS, Defaults
from airflow_provider.domain.errors import Conflict, InvalidInput, Unavailable
from airflow_provider.domain.identifiers import DomainName, TableName, domain_name
from airflow_provider.domain.interval import Interval, as_utc
from airflow_provider.domain.records import (
    Key,
    Stamped,
    retention_key,
    table_key,
    topology_key,
)
from airflow_provider.domain.retention import Version, VersionsRecord, still_needed
from airflow_provider.domain.topology import Table
from airflow_provider.domain.version import TableRecord, shown
from airflow_provider.stores.base import (
    MetadataStore,
    Put,
    Reading,
    SameStore,
    Transaction,
    pages,
    unchanged,
)
from airflow_provider.tables.base import Prepared, Publication
from airflow_provider.tables.factory import TableFormats
from airflow_provider.tables.projection import attempted

Answer = TypeVar("Answer")


@dataclass(frozen=True, kw_only=True, slots=True)
class Vacuumed:
    """Outcome of one vacuum.

    :param horizon: states resolved before this CSN, and superseded since, are gone unless they were claimed.
    :param ended: expired claims that were ended: ids of leases, and epochs whose attempts were silent.
    :param deleted: URIs of deleted files. :param claimed: number of superseded versions under a claim.
    :param orphans: places, deleted too, of attempts that ended without a commit.
    """

    horizon: int
    ended: tuple[str, ...]
    deleted: tuple[str, ...]
    claimed: int
    orphans: tuple[str, ...] = ()


class Retention:
    """Expiry of states and deletion of unclaimed versions. No row of a table's newest state is ever touched.

    :param clock: for waiting only. :param random: for pauses between tries.
    """

    def __init__(
        self,
        store: MetadataStore,
        formats: TableFormats,
        *,
        clock: Clock | None = None,
        random: Random | None = None,
        defaults: Defaults = DEFAULTS,
    ) -> None:
        self.store = store
        self.formats = formats
        self.defaults = defaults
        self._clock = clock or SystemClock()
        self._random = random or SystemRandom()

    def expire(self, domain: str, table: str | Table, barrier: datetime) -> None:
        """Expire the state of *table* at *barrier*; repeating it changes nothing.

        Existing claims keep their versions. Of a full table the rows of that barrier leave its next version, in a
        commit of their own; an incremental table keeps all rows: only the barrier is gone.

        :raises InvalidInput: no barrier that the table has reached, its newest one, or one that a job has yet to
            read, unless it is inactive (R9).
        :raises DomainMoved: the domain is in another store now. :raises DomainMoving: it is on its way.
        """
        checked = domain_name(domain)
        (name,) = names_of([table])
        moment = as_utc(barrier, "barrier")
        while self._done(lambda: self._page_ranges(checked)):
            pass
        self._done(lambda: self._expire(checked, name, moment))

    def vacuum(self, domain: str) -> Vacuumed:
        """End expired claims, and delete unclaimed versions that were superseded ``retention_grace`` ago.

        Output of attempts that ended ``orphan_grace`` ago without a commit is deleted, too (R16).

        May be called at any time, by several at once, and again after a crash.

        :raises StoreIncompatible: a claim cannot be read: nothing is deleted (R23).
        :raises WrongWarehouse: the domain's files are in another one (R33): nothing is deleted.
        """
        checked = domain_name(domain)
        self._done(lambda: refuse_sealed_domain(self.store, checked))
        self._done(lambda: refuse_other_warehouse_of(self.store, checked, self.formats.warehouse))
        forgotten = self._done(lambda: fence_forgotten(self.store, checked, self.defaults))
        ended = [*forgotten, *end_expired(self.store, checked)]
        names = [TableName(stamped.key.item) for stamped in pages(self.store, checked, TableRecord)]
        for name in names:
            self._done(lambda name=name: self._split(checked, name))  # type: ignore[misc]
        while self._done(lambda: self._page_ranges(checked)):
            pass
        while self._done(lambda: self._advance(checked)):
            pass
        horizon = retention_of(checked, self.store.read(checked, [retention_key(checked)])).horizon
        # Claims after the horizon: no new claim on what was superseded at it can appear (docs/decisions/retention.md).
        claimed = claimed_versions(self.store, checked)
        deleted: list[str] = []
        left = 0
        for name in names:
            for page in version_pages(self.store, checked, name):
                found = superseded(self.store, name, page, horizon, claimed)
                went, found = self._deleted(page.key, name, found)
                deleted += went
                left += found.claimed
        vacuumed = self._vacuum_orphans(checked)
        return Vacuumed(
            horizon=horizon, ended=tuple(ended), deleted=tuple(deleted), claimed=left, orphans=tuple(vacuumed)
        )

    # --- expiring ---------------------------------------------------------------------------------------------

    def _expire(self, domain: DomainName, name: TableName, barrier: datetime) -> None:
        # A publisher that lost races reserves the head: do not overtake it (docs/decisions/publish-queue.md).
        await_unreserved(self.store, domain, self._clock, self._random)
        table, retention, topology = table_key(domain, name), retention_key(domain), topology_key(domain)
        reading = self.store.read(domain, [table, retention, topology])
        refuse_sealed(domain, reading.get(topology))
        refuse_other_warehouse(domain, reading.get(topology), self.formats.warehouse)
        stamped = reading.get(table)
        if stamped is None or not reached(stamped.record, newest_version(stamped), barrier):
            raise _refused(name, barrier, "a barrier that the table has reached")
        if expired_states(self.store, domain, reading).range_at(name, barrier) is not None:
            return
        self._refuse_needed(domain, name, stamped, barrier)
        epoch = stamped.record.cadence.ending_at(barrier)
        commit = CommitBuilder(domain, reading, self.defaults)
        commit.require(*(unchanged(reading, key) for key in (table, retention, topology)))
        hull = self._record(commit, stamped, epoch)
        if not stamped.record.kind.loses_expired:
            self.store.transact(told_hull(commit, stamped, hull))
            return
        publication, prepared = self._without_slice(commit, stamped, epoch)
        after = replace(written_out(stamped), expired=hull or stamped.record.expired)
        commit.show(stamped, after, epoch, publication, prepared)
        self.store.transact(commit.transaction(publication.change_set, by="retention"))
        self.formats[publication.table.format].published(publication, prepared)

    def _record(
        self, commit: CommitBuilder, stamped: Stamped[TableRecord], epoch: Interval
    ) -> Interval | None:
        """Add to *commit* that *epoch* is expired; return the table's hull if it has to grow."""
        domain, name = stamped.key.domain, TableName(stamped.key.item)
        record = retention_of(domain, commit.reading)
        if self.store.format < SINCE_FORMAT:
            commit.update(Put(retention_key(domain), record.expiring(name, epoch)))
            return None
        requires, updates = expired_pages(self.store, domain, name, [epoch], self.defaults)
        commit.require(*requires)
        # The retention record is written unchanged: claims in flight require its version, and are decided anew.
        commit.update(Put(retention_key(domain), record), *updates)
        return hull_of(stamped, epoch)

    def _page_ranges(self, domain: DomainName) -> bool:
        """Move some ranges of the domain's retention record into pages; return whether it has more."""
        retention, topology = retention_key(domain), topology_key(domain)
        reading = self.store.read(domain, [retention, topology])
        refuse_sealed(domain, reading.get(topology))
        record = retention_of(domain, reading)
        if not record.expired or self.store.format < SINCE_FORMAT:
            return False
        await_unreserved(self.store, domain, self._clock, self._random)
        first, most = record.expired[0], self.defaults.ranges_in_page
        table = table_key(domain, first.table)
        tables = self.store.read(domain, [table])
        stamped = tables.get(table)
        known = first.ranges[:most]
        requires, updates = expired_pages(self.store, domain, first.table, known, self.defaults)
        left = replace(first, ranges=first.ranges[most:])
        after = replace(record, expired=(*([left] if left.ranges else []), *record.expired[1:]))
        hull = hull_of(stamped, Interval(known[0].start, known[-1].end)) if stamped and known else None
        commit = CommitBuilder(domain, reading, self.defaults)
        commit.require(unchanged(tables, table), *(unchanged(reading, key) for key in (retention, topology)))
        commit.require(*requires)
        commit.update(Put(retention, after), *updates)
        self.store.transact(told_hull(commit, stamped, hull))
        return bool(after.expired)

    def _refuse_needed(
        self, domain: DomainName, name: TableName, stamped: Stamped[TableRecord], barrier: datetime
    ) -> None:
        if stamped.record.progress.watermark == barrier:
            raise _refused(name, barrier, "a barrier before the table's newest one")
        inactive = inactive_jobs(self.store, domain)
        for job in reading_jobs(self.store, domain, [name]):
            if job.name in inactive:
                continue
            keys = [table_key(domain, output) for output in job.all_outputs]
            tables = (found.record for found in self.store.read(domain, keys).records.values())
            outputs = [table for table in tables if table.job == job.name and not table.ended]
            if still_needed(job, outputs, name, stamped.record, barrier):
                raise _refused(
                    name,
                    barrier,
                    f"a barrier that job {job.name!r} has no epoch left to read at",
                    next_step=f"let job {job.name!r} compute them first; where nothing more comes of it, such as of "
                    f"a trial, `airflow epochs retire {job.name} --reason …`.",
                )

    def _without_slice(
        self, commit: CommitBuilder, stamped: Stamped[TableRecord], epoch: Interval
    ) -> tuple[Publication, Prepared]:
        """Prepare the table's next version, which has no rows of *epoch*."""
        record, name = stamped.record, TableName(stamped.key.item)
        if record.ref is None:
            raise _refused(name, epoch.end, "a barrier of a table with a commit")
        table = _table(stamped.key.domain, name, record, record.ref.format)
        shows = shown(record, record.progress, self.store.format)
        version = commit.next_version(table, record.ref, shows, expiry(name, epoch))
        publication = replace(version, removes=(epoch.end,))
        return publication, prepared_or_moved(self.store, self.formats, publication, stamped)

    # --- vacuuming ------------------------------------------------------------------------------------------------

    def _vacuum_orphans(self, domain: DomainName) -> list[str]:
        """Delete orphans; return their places."""
        deleted = []
        for orphan in orphans(self.store, self.formats, domain, self.defaults):
            self.formats[orphan.place.table.format].roll_back(orphan.place)
            deleted.append(orphan.place.uri)
        return deleted

    def _split(self, domain: DomainName, name: TableName) -> None:
        split_versions(self.store, domain, name, self.defaults.versions_in_page)

    def _advance(self, domain: DomainName) -> bool:
        """Move the horizon over some commits older than any cut without a lease; return whether to go on.

        At most ``versions_in_page`` at a time, so that no record or transaction grows with the backlog.
        """
        key, topology = retention_key(domain), topology_key(domain)
        reading = self.store.read(domain, [key, topology])
        refuse_sealed(domain, reading.get(topology))
        record, most = retention_of(domain, reading), self.defaults.versions_in_page
        horizon, commits = record.horizon, self.store.changes(domain, record.horizon, limit=most)
        versions: dict[TableName, list[Version]] = {}
        for commit in commits:
            if commit.at + self.defaults.retention_grace > reading.now:
                break
            horizon = commit.csn or horizon
            for delta in commit.record.tables:
                if delta.ref is not None:
                    versions.setdefault(delta.table, []).append(Version(csn=horizon, ref=delta.ref.lasting()))
        if horizon == record.horizon:
            return False
        for name, found in versions.items():  # before the horizon moves, so that a crash loses none
            remember_versions(self.store, domain, name, found, most)
        self._write(reading, key, replace(record, horizon=horizon), topology)
        return len(commits) == most and commits[-1].csn == horizon

    def _deleted(
        self, key: Key[VersionsRecord], name: TableName, found: Superseded
    ) -> tuple[list[str], Superseded]:
        """Delete the versions *found* at *key*; return the URIs, and the findings at the time of deletion.

        Another vacuum may delete versions that this one found claimed, or newest, a moment ago, and keeps. Their files
        are missing then, and nothing was deleted: decide anew. If the findings are the same, the error stands.
        """
        while found.gone:
            try:
                return self._delete(key, name, found), found
            except Unavailable:
                before, found = found, superseded_now(self.store, name, key)
                if found == before:
                    raise
        return [], found

    def _delete(self, key: Key[VersionsRecord], name: TableName, found: Superseded) -> list[str]:
        """Delete the files of superseded versions, except those that others share; return their URIs."""
        record = cast("TableRecord", found.record)
        table = _table(key.domain, name, record, found.gone[-1].ref.format)
        if record.ref is not None:  # a lagging pointer would keep superseded files
            attempted(self.formats[table.format], table, record.ref)
        refs = [version.ref for version in found.gone]
        deleted = self.formats[table.format].vacuum(table, refs, found.kept)
        self._done(lambda: forget_versions(self.store, key, found.gone))
        return deleted

    def _write(self, reading: Reading, key: Key[Any], record: Any, *others: Key[Any]) -> None:
        """Write *record*; require its key and *others* unchanged since *reading*."""
        self.store.transact(
            Transaction(
                domain=key.domain,
                store=SameStore(reading.head.incarnation),
                requires=tuple(unchanged(reading, required) for required in (key, *others)),
                updates=(Put(key, record),),
            )
        )

    def _done(self, request: Callable[[], Answer]) -> Answer:
        return retry(
            request,
            lost=Conflict("others kept changing the tables, or what is expired.", next_step="try again."),
            clock=self._clock,
            random=self._random,
            timeout=self.defaults.unknown_outcome_timeout,
        )


def _table(domain: DomainName, name: TableName, record: TableRecord, table_format: str) -> Table:
    """Return the table as its format needs to know it, without the declarations for writers."""
    return Table(name, domain=domain, kind=record.kind, format=table_format)


def _refused(
    table: TableName,
    barrier: datetime,
    expected: str,
    *,
    next_step: str = "see `airflow epochs status` for the barriers that the table has.",
) -> InvalidInput:
    return InvalidInput(
        f"{table} at {barrier.isoformat()} cannot be expired; expected {expected}.",
        next_step=next_step,
        field="barrier",
        value=barrier.isoformat(),
        expected=expected,
        table=table,
    )
