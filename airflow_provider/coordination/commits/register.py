"""Registration: a job and its tables become known to the domain, in one transaction (R6)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from shlex import quote

from airflow_provider.coordination.commits.catch_up import behind_of, refuse_leaving
from airflow_provider.coordination.commits.commit import CommitBuilder
from airflow_provider.coordination.commits.dependents import refuse_aligned_readers
from airflow_provider.coordination.commits.dropped import refuse_dropping
from airflow_provider.coordination.commits.open_restatements import open_restatements
from airflow_provider.coordination.commits.places import (
    PLACES_SINCE_FORMAT,
    refuse_elsewhere,
    remembers_places,
    with_places,
)
from airflow_provider.coordination.commits.renamed_sources import refuse_from_the_beginning
from airflow_provider.coordination.commits.sealed import refuse_sealed
from airflow_provider.coordination.commits.tell_readers import tell_readers
from airflow_provider.coordination.context import Context
from airflow_provider.coordination.retrying import ReadAgain
from airflow_provider.domain.calendars import check_change
from airflow_provider.domain.dropping import last_drop
from airflow_provider.domain.epoch import EpochRecord, LockRecord
from airflow_provider.domain.errors import Conflict, TopologyError
from airflow_provider.domain.identifiers import ChangeSetId, DomainName, JobName, TableName
from airflow_provider.domain.inheriting import inheriting
from airflow_provider.domain.interval import Interval, time_key
from airflow_provider.domain.origins import moved_origin, refuse_forward
from airflow_provider.domain.records import (
    Key,
    Kind,
    Stamped,
    chain_key,
    epoch_key,
    job_key,
    rewrite_log_key,
    table_key,
    topology_key,
)
from airflow_provider.domain.registration import (
    JobRecord,
    check_left_tables,
    check_no_gap,
    check_registration,
    check_same_table,
    check_takeover,
    declared,
    serves_once,
)
from airflow_provider.domain.sizes import refuse_large, refuse_large_group
from airflow_provider.domain.source_bounds import Source, SourceRecord
from airflow_provider.domain.topology import Job, Table
from airflow_provider.domain.topology_record import TopologyRecord
from airflow_provider.domain.version import RewriteLog, TableRecord
from airflow_provider.domain.watermark import Progress
from airflow_provider.stores.base import (
    Absent,
    Exists,
    MetadataReader,
    Put,
    Reading,
    SameStore,
    Transaction,
    pages,
    scan,
    unchanged,
)
from airflow_provider.stores.declarations import fingerprint


def other_jobs(reader: MetadataReader, domain: DomainName, job: JobName) -> dict[JobName, JobRecord]:
    """The registered jobs of *domain* beside *job*, retired ones too."""
    found = {stamped.record.name: stamped.record for stamped in pages(reader, domain, JobRecord)}
    return {name: record for name, record in found.items() if name != job}


def furthest(reader: MetadataReader, domain: DomainName) -> datetime | None:
    """The highest watermark of *domain*: no cut of the whole domain has come further."""
    marks = (stamped.record.progress.watermark for stamped in pages(reader, domain, TableRecord))
    return max((mark for mark in marks if mark is not None), default=None)


def _other_source(source: Source, field: str) -> str:
    """The next step where *field* of *source* cannot become what is declared."""
    if source.has_spans:
        return (
            "keep it; or read the table from its beginning by another name, in a job with tables of its own."
        )
    if field == "late_window":
        return "keep the window: it may only grow; or declare a source of another name."
    return (
        "keep it; or declare a source of another name, once `airflow epochs doctor` names nothing of this one: what "
        "came late to it and waits for the next begin would be read by no epoch."
    )


def register(context: Context, job: Job) -> JobRecord:
    """Make *job* and its tables known, or find that they are.

    :raises WrongWarehouse: the domain's files are in another one (R33). :raises WrongCatalog: its tables are.
    :raises TopologyError: the topology cannot hold it (R6). Of two racing registrations one wins.
    """
    own = context.formats.writable(job)
    return Register(context, own).run()


@dataclass(frozen=True, slots=True)
class Register:
    """One registration; ``run`` may be repeated."""

    context: Context
    job: Job

    def run(self) -> JobRecord:
        lost = Conflict(
            f"job {self.job.name!r}: other registrations kept changing the topology.",
            next_step="try again.",
            job=self.job.name,
        )
        return self.context.retry(self._try, lost)

    def _try(self) -> JobRecord:
        record, transaction = self.plan()
        if transaction is not None:
            self.context.store.transact(transaction)
        return record

    def plan(self) -> tuple[JobRecord, Transaction | None]:
        """Decide, and change nothing: the job's record, and what would make it known; None where it is.

        :raises ReadAgain: the records that were read do not belong together.
        :raises TopologyError: the topology cannot hold it. :raises WrongWarehouse: the domain's files are elsewhere.
        :raises WrongCatalog: its tables are.
        """
        job = self.job
        topology, own = topology_key(job.domain), job_key(job.domain, job.name)
        tables = [table_key(job.domain, table.name) for table in job.outputs]
        logs = [rewrite_log_key(job.domain, table.name) for table in job.outputs]
        reading = self.context.store.read(job.domain, [topology, own, *tables, *logs, *self._chains])
        for table, log in zip(tables, logs, strict=True):
            if table in reading.records and not {topology, log} <= {*reading.records}:
                raise ReadAgain  # another registration, which makes all three, came between these reads
        refuse_sealed(job.domain, reading.get(topology))
        refuse_elsewhere(job.domain, reading.get(topology), self.context.formats)
        refuse_dropping(job, reading.get(topology))
        current = reading.get(own)
        record = declared(job, current.record if current else None, fingerprint(job))
        if serves_once(record):
            return record, None
        if current is not None and record == current.record:
            return record, self._remembering(reading)
        others = other_jobs(self.context.store, job.domain, job.name)
        check_registration(record, others, current.record if current else None)
        check_left_tables(record, self._left_tables(record, others))
        self._refuse_known_tables(reading)
        known = [*([current.record] if current else []), *others.values()]
        self._refuse_changed_sources(known)
        taken_over = [other for other in others.values() if self._takes_over(other)]
        before = [*([current.record] if current else []), *taken_over]
        refuse_from_the_beginning(self.context.store, job.domain, job, before)
        record = inheriting(record, taken_over)
        refuse_large(record)
        refuse_large_group(record, others.values())
        if current is not None:
            check_change(current.record.cadence, record.cadence, self._computed(reading, current.record))
            refuse_leaving(behind_of(reading, job.domain), current.record, record)
        refuse_aligned_readers(self.context.store, reading, job, known)
        for other in known:
            check_change(other.cadence, record.cadence, self._bounded(other))
        if current is not None:
            self._refuse_forward(reading, current.record)
        return record, self._transaction(reading, record, others)

    def remembers(self, topology: Stamped[TopologyRecord] | None) -> bool:
        """Return True if the domain knows its places, or its store cannot keep them (R33)."""
        known = topology is None or remembers_places(topology.record, self.context.formats)
        return known or self.context.store.format < PLACES_SINCE_FORMAT

    def _remembering(self, reading: Reading) -> Transaction | None:
        """Return the transaction that lets a domain of an older version know its places; None where it does."""
        domain, before = self.job.domain, reading.get(topology_key(self.job.domain))
        if before is None or self.remembers(before):
            return None
        found = with_places(self.context.store, domain, before, self.context.formats)
        return Transaction(
            domain=domain,
            store=SameStore(reading.head.incarnation),
            requires=(Exists(before.key, before.version),),
            updates=(Put(before.key, found),),
        )

    def _refuse_forward(self, reading: Reading, before: JobRecord) -> None:
        origin, job = self.job.origin, self.job
        if origin is None or before.origin is None or origin <= before.origin:
            return
        tables = [stamped.record for stamped in reading.records.values() if stamped.key.kind is Kind.TABLE]
        refuse_forward(job.name, origin, before.origin, tables, self._open_epochs())

    def _open_epochs(self) -> list[Interval]:
        """Return the epochs with an attempt: those with a lock, and those that are staged, which have none."""
        store, domain, name = self.context.store, self.job.domain, self.job.name
        locks = {lock.key._replace(kind=Kind.EPOCH) for lock in pages(store, domain, LockRecord, name)}
        change_sets = [stamped.record for _, stamped in open_restatements(store, domain)]
        members = (epoch_key(domain, name, own.start) for record in change_sets for own in record.of(name))
        epochs = store.read(domain, list(dict.fromkeys([*locks, *members]))).records
        return [
            stamped.record.interval
            for key, stamped in sorted(epochs.items())
            if stamped.record.attempt is not None and (key in locks or stamped.record.attempt.staged)
        ]

    def _refuse_changed_sources(self, jobs: Sequence[JobRecord]) -> None:
        """Compare with how the job declares them now, and with how a job did that has left them.

        :raises TopologyError: a source of which bounds are recorded would be read by another rule.
        """
        known = {source.name: source for job in jobs for source in job.left_sources}
        known |= {source.name: source for job in jobs if job.name == self.job.name for source in job.sources}
        for source in self.job.sources:
            old = known.get(source.name)
            name = source.unlike(old) if old is not None else ""
            if name and scan(self.context.store, self.job.domain, SourceRecord, source.name, limit=1):
                raise TopologyError(
                    f"source {source.name!r} has {name} {str(getattr(old, name))!r}, by which bounds are recorded; it "
                    f"cannot become {str(getattr(source, name))!r}: rows would be read twice, or by no epoch.",
                    next_step=_other_source(source, name),
                    source=source.name,
                    field=name,
                )

    def _takes_over(self, other: JobRecord) -> bool:
        """Return True if the job declares a table that *other* has or had."""
        return any(table.name in other.all_outputs for table in self.job.outputs)

    def _computed(self, reading: Reading, before: JobRecord) -> list[Interval]:
        """Return the epochs that the job's tables have, those that it has committed to left tables, and its open ones.

        One that opens meanwhile is refused when it publishes.
        """
        job = self.job
        tables = [reading.get(table_key(job.domain, table.name)) for table in job.outputs]
        committed = [
            interval for stamped in tables if stamped for interval in stamped.record.progress.islands
        ]
        since = job.cadence.until(before.cadence)
        if since is not None:
            later = pages(self.context.store, job.domain, EpochRecord, job.name, start=time_key(since))
            committed += [epoch.record.interval for epoch in later if epoch.record.committed is not None]
        return [*committed, *self._open_epochs()]

    @property
    def _chains(self) -> list[Key[RewriteLog]]:
        """Records that each begin writes anew whose bounds other begins depend on."""
        return [chain_key(self.job.domain, source.name) for source in self.job.sources if source.looks_around]

    def _bounded(self, before: JobRecord) -> Iterator[Interval]:
        """Epochs for which *before* recorded bounds of sources that the job has, too: they stay (I11), also once left.

        Where later bounds depend on them, the registration requires that none were recorded meanwhile.
        """
        since = self.job.cadence.until(before.cadence)
        if since is None:
            return
        shared = {*before.all_sources} & {source.name for source in self.job.sources}
        for name in sorted(shared):
            for stamped in pages(
                self.context.store, self.job.domain, SourceRecord, name, start=time_key(since)
            ):
                record = stamped.record
                if record.job == before.name and record.interval is not None:
                    yield record.interval

    def _transaction(
        self, reading: Reading, record: JobRecord, others: Mapping[JobName, JobRecord]
    ) -> Transaction:
        job = self.job
        topology, own = topology_key(job.domain), job_key(job.domain, job.name)
        before = reading.get(topology)
        known = with_places(self.context.store, job.domain, before, self.context.formats)
        changed = replace(known, generation=known.generation + 1)
        commit = CommitBuilder(job.domain, reading, self.context.defaults)
        commit.require(
            unchanged(reading, topology),
            *(unchanged(reading, chain) for chain in self._chains),
        )
        commit.update(Put(topology, changed), Put(own, record))
        start = self._start_of_new_tables(reading)
        records = [reading.get(table_key(job.domain, table.name)) for table in job.outputs]
        kept: list[Stamped[TableRecord]] = []
        for table, stamped in zip(job.outputs, records, strict=True):
            key = table_key(job.domain, table.name)
            if stamped is not None and stamped.record.progress == Progress() and job.origin is not None:
                # Nothing was committed and nothing declared: the origin that is declared now is the table's.
                commit.hold(stamped)
                commit.update(Put(key, self._new_table(table, record, start, known)))
            elif stamped is None:
                commit.require(Absent(key))
                commit.update(Put(key, self._new_table(table, record, start, known)))
                commit.update(Put(rewrite_log_key(job.domain, table.name), RewriteLog()))
            else:
                kept.append(stamped)
                if start != job.origin and None in records:
                    # What is committed decided where the new tables begin.
                    commit.hold(stamped)
        self._move_tables(commit, kept, record, others)
        return commit.transaction(
            ChangeSetId(f"{record.name}#declaration {record.revision}"), by="registration"
        )

    def _move_tables(
        self,
        commit: CommitBuilder,
        kept: Sequence[Stamped[TableRecord]],
        record: JobRecord,
        others: Mapping[JobName, JobRecord],
    ) -> None:
        """Give the job's tables its calendar and origin where they are new, and itself as the owner of those taken over
        (R7).

        A table that was retired alone goes on when its job declares it again.
        """
        before = commit.reading.get(job_key(self.job.domain, record.name))
        jobs = {**others, **({record.name: before.record} if before else {})}
        moved = []
        for stamped in kept:
            now = stamped.record
            former = jobs[now.job].origin if now.job in jobs else None
            after = replace(
                now,
                job=record.name,
                cadence=record.cadence,
                ended=record.retired,
                progress=moved_origin(now.progress, record.origin, former),
                joins=furthest(self.context.store, self.job.domain)
                if now.ended and not record.retired
                else now.joins,
            )
            if after != now:
                moved.append((stamped, after))
        tell_readers(self.context, self.job, commit, moved)
        for stamped, after in moved:
            commit.move(stamped, after)

    def _left_tables(
        self, job: JobRecord, others: Mapping[JobName, JobRecord]
    ) -> dict[TableName, TableRecord]:
        """Return the records of the tables that *job* reads and no job declares any more."""
        jobs = [job, *(other for other in others.values() if not other.retired)]
        declared_now = {table.name for known in jobs for table in known.outputs}
        names = sorted({edge.table for edge in job.edges} - declared_now)
        keys = {name: table_key(self.job.domain, name) for name in names}
        found = self.context.store.read(self.job.domain, list(keys.values())) if names else None
        return {name: found.of(key).record for name, key in keys.items() if found and found.get(key)}

    def _refuse_known_tables(self, reading: Reading) -> None:
        """A table stays what it was, also when its job left it for a while; that of another job can be taken over when
        that job, or the table alone, is retired (R7).
        """
        for table in self.job.outputs:
            known = reading.get(table_key(self.job.domain, table.name))
            if known is None:
                continue
            if known.record.job == self.job.name or known.record.ended:
                check_same_table(self.job, table, known.record)
            if known.record.job == self.job.name:
                if known.record.progress.declared:
                    check_no_gap(self.job, table, known.record)
                continue
            if known.record.ended:
                check_takeover(self.job, table, known.record)
                continue
            raise TopologyError(
                f"table {table.name!r} belongs to job {known.record.job!r}, which no longer declares it; "
                f"job {self.job.name!r} cannot take it over.",
                next_step=f"`airflow epochs retire {quote(known.record.job)} --table {quote(table.name)} --reason …`, "
                "or another name.",
                table=table.name,
                owner=known.record.job,
            )

    def _start_of_new_tables(self, reading: Reading) -> datetime | None:
        """Return the beginning of the chain of a table that the job did not have before (R7).

        With a declared origin it is the end of what the job has committed to its other tables: the epochs before
        it have no rows of the new table, and no run needs to compute them again for it.
        """
        job = self.job
        known = [reading.get(table_key(job.domain, table.name)) for table in job.outputs]
        ends = [
            stamped.record.progress.islands[-1].end
            for stamped in known
            if stamped and stamped.record.progress.islands
        ]
        return job.origin if job.origin is None else max([job.origin, *ends])

    def _new_table(
        self, table: Table, record: JobRecord, start: datetime | None, topology: TopologyRecord
    ) -> TableRecord:
        return TableRecord(
            job=record.name,
            kind=table.kind,
            cadence=record.cadence,
            progress=Progress(origin=start, declared=start is not None),
            ended=record.retired,
            born=last_drop(topology.dropped, table.name),
        )
