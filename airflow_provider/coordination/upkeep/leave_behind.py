"""Committed epochs that binding a source anew leaves behind, and the records of them (I11, R18).

They have to be computed again before anything reads them beside epochs that have read the newer revision. So binding
is refused if they cannot be: if they have committed readers, if their job is retired or has left a table, or if
retention has expired a state that they read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from shlex import quote

from airflow_provider.coordination.attempts.missing_inputs import DECLARED_AGAIN
from airflow_provider.coordination.commits.dependents import rewrite_requirements
from airflow_provider.coordination.commits.expired_states import expired_states
from airflow_provider.coordination.commits.source_dependents import source_dependents
from airflow_provider.coordination.commits.stayed_rows import tables_with_rows
from airflow_provider.coordination.context import Context
from airflow_provider.domain.behind import Behind, bound_anew
from airflow_provider.domain.dependent import Dependent
from airflow_provider.domain.errors import DependentReaders, TopologyError, Unavailable
from airflow_provider.domain.identifiers import DomainName, JobName, TableName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import Stamped, job_key, retention_key, rewrite_log_key, table_key
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.retention import full_states_read
from airflow_provider.domain.rewrites import with_binds
from airflow_provider.domain.source_bounds import SourceBounds, SourceRecord
from airflow_provider.domain.topology_record import TopologyRecord
from airflow_provider.stores.base import Absent, Exists, MetadataReader, Put, unchanged


@dataclass(frozen=True, kw_only=True, slots=True)
class Left:
    """The committed epochs that have read other bounds of a source than it has now.

    :param entries: of all of them. :param unknown: of those that the topology does not name yet.
    :param required: pins the epoch records of all jobs that read the source.
    """

    entries: tuple[Behind, ...]
    unknown: tuple[Behind, ...]
    required: tuple[Exists | Absent, ...]

    @property
    def epochs(self) -> tuple[Dependent, ...]:
        jobs = dict.fromkeys((entry.job, entry.interval, TableName(entry.source)) for entry in self.entries)
        return tuple(
            Dependent(job=job, interval=interval, tables=(source,)) for job, interval, source in jobs
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class LeavingBehind:
    """Search for the epochs that binding *source* anew for *interval* leaves behind.

    :param topology: read before all other records.
    """

    context: Context
    domain: DomainName
    source: str
    interval: Interval
    topology: Stamped[TopologyRecord]

    @property
    def _store(self) -> MetadataReader:
        return self.context.store

    def of(self, known: Mapping[int, SourceRecord], bounds: SourceBounds) -> Left:
        """Return the epochs that have read other bounds than *bounds*, which are to be revision ``max(known) + 1``."""
        revision = max(known) + 1

        def is_other(read: int) -> bool:
            return read not in known or not known[read].whole.same_as(bounds)

        readers = source_dependents(self._store, self.domain, self.source, self.interval, (revision,))
        marked = [entry for entry in self._marked() if is_other(entry.read)]
        unknown = []
        for epoch, read in readers.behind:
            known_of = {table for entry in marked if entry.job == epoch.job for table in entry.tables}
            tables = tuple(table for table in self._tables(epoch.job) if table not in known_of)
            if is_other(read) and tables:
                unknown.append(
                    Behind(
                        job=epoch.job,
                        interval=self.interval,
                        tables=tables,
                        source=self.source,
                        read=read,
                        revision=revision,
                    )
                )
        entries = (*(replace(entry, revision=revision) for entry in marked), *unknown)
        return Left(entries=entries, unknown=tuple(unknown), required=readers.required)

    def changes(self, left: Left) -> tuple[Sequence[Exists | Absent], Sequence[Put]]:
        """Return requirements and updates of the transaction that binds.

        :raises DependentReaders: committed epochs have read an epoch that would be behind.
        :raises TopologyError: its job is retired, or no longer declares a table that has rows of it.
        :raises Unavailable: retention has expired a state that it reads.
        :raises RecordFull: too many epochs are behind.
        """
        required: list[Exists | Absent] = [Exists(self.topology.key, self.topology.version), *left.required]
        before = self.topology.record
        behind = bound_anew(before.behind, self.source, self.interval.end, left.entries)
        if behind == before.behind:
            return required, ()
        for entry in left.unknown:
            self._refuse_over(entry)
        required.append(self._unexpired(left.unknown))
        tables = list(dict.fromkeys(table for entry in left.unknown for table in entry.tables))
        found = self._store.read(
            self.domain,
            [make(self.domain, table) for table in tables for make in (table_key, rewrite_log_key)],
        )
        required += [Exists(stamped.key, stamped.version) for stamped in found.records.values()]
        required += self._unread(tables)
        topology = replace(before, behind=behind, binds=before.binds + 1)
        logs = [found.of(rewrite_log_key(self.domain, table)) for table in tables]
        touched = [Put(log.key, with_binds(log, topology.binds, self.context.defaults)) for log in logs]
        return required, [Put(self.topology.key, topology), *touched]

    def _marked(self) -> list[Behind]:
        """Return the topology's open entries for this source and interval."""
        entries = self.topology.record.behind
        return [
            entry
            for entry in entries
            if not entry.until and (entry.source, entry.interval) == (self.source, self.interval)
        ]

    def _tables(self, job: JobName) -> tuple[TableName, ...]:
        """Return the tables that have rows of the epoch of *job*, also those that it has left since."""
        return tables_with_rows(self._store, self.domain, self._record(job), self.interval)

    def _record(self, job: JobName) -> JobRecord:
        key = job_key(self.domain, job)
        return self._store.read(self.domain, [key]).of(key).record

    def _refuse_over(self, entry: Behind) -> None:
        """:raises TopologyError: the epoch would be behind, and no job could compute all of it again."""
        job = self._record(entry.job)
        left = set(entry.tables) - {table.name for table in job.outputs}
        if not job.retired and not left:
            return
        over = (
            f"is retired: {job.retired}" if job.retired else f"no longer declares {', '.join(sorted(left))}"
        )
        step = f"`airflow epochs revive {quote(job.name)}`" if job.retired else DECLARED_AGAIN
        raise TopologyError(
            f"source {self.source!r} cannot be bound anew for {self.interval}: job {job.name!r} has computed that from "
            f"revision {entry.read}, and {over}: it could not be computed again, and would stand on another revision "
            "than what is computed next.",
            next_step=f"leave it; or {step}, and bind it then.",
            job=job.name,
            source=self.source,
        )

    def _unexpired(self, entries: Sequence[Behind]) -> Exists | Absent:
        """Return the requirement that retention expires no state meanwhile that *entries* have to read again.

        :raises Unavailable: it has expired such a state.
        """
        jobs = {entry.job: self._record(entry.job) for entry in entries}
        names = {edge.table for job in jobs.values() for edge in job.all_edges}
        claims, keys = retention_key(self.domain), [table_key(self.domain, name) for name in sorted(names)]
        reading = self._store.read(self.domain, [claims, *keys])
        tables = {TableName(key.item): reading.of(key).record for key in keys if reading.get(key) is not None}
        expired = expired_states(self._store, self.domain, reading)
        for entry in entries:
            states = full_states_read(jobs[entry.job], entry.interval, tables)
            expired.load(states)
            gone = [name for name, barrier in states if expired.range_at(name, barrier) is not None]
            if gone:
                raise Unavailable(
                    f"source {self.source!r} cannot be bound anew for {self.interval}: job {entry.job!r} has computed "
                    f"that from revision {entry.read}, and could not compute it again: retention has expired what it "
                    f"reads of {', '.join(gone)}.",
                    next_step="leave it; what came late can land where a later epoch looks.",
                    tables=tuple(gone),
                    source=self.source,
                )
        return unchanged(reading, claims)

    def _unread(self, tables: Sequence[TableName]) -> list[Exists]:
        """Return requirements that no reader of *tables* commits meanwhile.

        :raises DependentReaders: readers have committed.
        """
        try:
            return rewrite_requirements(
                self.context.store,
                self.domain,
                tables,
                self.interval,
                self.topology,
                defaults=self.context.defaults,
            )
        except DependentReaders as error:
            raise DependentReaders.of(
                f"source {self.source!r} cannot be bound anew for {self.interval}: what was computed from it has "
                "committed readers, and could not be computed again",
                error.readers,
                next_step="leave it; what came late can land where a later epoch looks. A "
                "restatement computes them again with what has read them (`airflow epochs restate plan`); a skipped "
                "epoch among them can be computed first.",
                interval=self.interval,
                source=self.source,
            ) from error
