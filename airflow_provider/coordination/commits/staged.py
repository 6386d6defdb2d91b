"""Staged epochs of a restatement: its members read each other's output before any of it is published (R28)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from airflow_provider.domain.attempt_events import written_output
from airflow_provider.domain.cut import Staged
from airflow_provider.domain.epoch import AttemptEvent, AttemptRecord, EpochRecord, Provenance
from airflow_provider.domain.epoch_id import EpochId
from airflow_provider.domain.errors import Conflict, NotReady, UnknownName
from airflow_provider.domain.group import computes
from airflow_provider.domain.identifiers import DomainName, JobName, RestatementId, TableName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.missing import Missing
from airflow_provider.domain.records import (
    Key,
    Stamped,
    epoch_key,
    event_partition,
    job_key,
    restatement_key,
    table_key,
)
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.restatement import (
    RestatementRecord,
    StagedEpoch,
    digest_of,
    name_of_revert,
    within,
)
from airflow_provider.domain.version import TableRecord
from airflow_provider.stores.base import MetadataReader, scan

_PAGE = 500


@dataclass(frozen=True, kw_only=True, slots=True)
class Members:
    """Members of the restatement *name*, as the store has them. :param record: as it was read.

    It serves one decision: what :meth:`beside` has read, or :meth:`know` was told, is not read again.
    """

    reader: MetadataReader
    domain: DomainName
    name: RestatementId
    record: RestatementRecord
    _known: dict[Key[Any], Stamped[Any] | None] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of(cls, reader: MetadataReader, domain: DomainName, name: RestatementId) -> Members:
        """:raises UnknownName: no such restatement in the domain."""
        stamped = restatement_of(reader, domain, name)
        return cls(reader=reader, domain=domain, name=name, record=stamped.record)

    def know(self, epochs: Mapping[Key[EpochRecord], Stamped[EpochRecord] | None]) -> None:
        """Take *epochs* as they were read."""
        self._known.update(epochs)

    def epochs(
        self, job: JobRecord, intervals: Sequence[Interval]
    ) -> Iterator[tuple[Interval, Stamped[EpochRecord] | None]]:
        """Yield the record of each of *intervals*; None where it is not staged by the job's present declaration."""
        for start in range(0, len(intervals), _PAGE):
            page = intervals[start : start + _PAGE]
            keys = {interval: epoch_key(self.domain, job.name, interval.start) for interval in page}
            found = self._read(list(keys.values()))
            for interval, key in keys.items():
                stamped = found.get(key)
                yield interval, stamped if self._is_staged(stamped, job, interval) else None

    def _is_staged(self, stamped: Stamped[EpochRecord] | None, job: JobRecord, interval: Interval) -> bool:
        if stamped is None or stamped.record.interval != interval or stamped.record.attempt is None:
            return False
        attempt = stamped.record.attempt
        return attempt.restated_by == self.name and attempt.staged and attempt.job_revision == job.revision

    def read(
        self,
        epoch: EpochId,
        inputs: Iterable[Provenance],
        tables: Mapping[TableName, Stamped[TableRecord] | None],
    ) -> tuple[Provenance, ...]:
        """Return *inputs* of *epoch* with what is staged in their ranges.

        :param tables: records of the tables that it reads.
        :raises NotReady: members that it reads are not staged.
        """
        missing: dict[Missing, None] = {}
        found = tuple(self._with_staged(read, tables, missing) for read in inputs)
        if missing:
            raise NotReady(
                f"{epoch.job} {epoch.interval} is not ready: {'; '.join(map(str, missing))}.",
                next_step="; ".join(dict.fromkeys(entry.way_out for entry in missing if entry.way_out))
                or "wait: the tasks of these jobs compute them.",
                job=epoch.job,
                interval=epoch.interval,
                missing=tuple(missing),
            )
        return found

    def missing(
        self, inputs: Iterable[Provenance], tables: Mapping[TableName, Stamped[TableRecord] | None]
    ) -> list[Missing]:
        """Return the members that are read for *inputs* and are not staged."""
        missing: dict[Missing, None] = {}
        for read in inputs:
            self._with_staged(read, tables, missing)
        return [*missing]

    def reread(
        self, inputs: Iterable[Provenance], tables: Mapping[TableName, Stamped[TableRecord] | None]
    ) -> tuple[Provenance, ...]:
        """Return *inputs* with what is staged in their ranges now, also where members are not staged."""
        return tuple(self._with_staged(read, tables, {}) for read in inputs)

    def beside(self, tables: Mapping[TableName, TableRecord]) -> dict[TableName, TableRecord]:
        """Return *tables* as if what the group's jobs compute at its barrier were committed; as they are otherwise.

        A begin resolves inputs by it, and then calls :meth:`read` with *tables*, which finds staged output of each such
        epoch or refuses the begin. A table that its job declares no more stays as it is: nothing is staged for it.
        """
        new = {name: self._uncommitted(table) for name, table in tables.items()}
        keys = {name: job_key(self.domain, tables[name].job) for name, intervals in new.items() if intervals}
        if not keys:
            return dict(tables)
        epochs = [
            epoch_key(self.domain, tables[name].job, epoch.start) for name in keys for epoch in new[name]
        ]
        read = [*keys.values(), *epochs]
        self._known.update(dict.fromkeys(read) | self._read(read))
        found = dict(tables)
        for name, key in keys.items():
            job = self._known.get(key)
            if job is not None and any(output.name == name for output in job.record.outputs):
                staged = [interval for interval in new[name] if computes(job.record, self.name, interval)]
                found[name] = replace(tables[name], progress=tables[name].progress.adding(*staged))
        return found

    def _read(self, keys: Sequence[Key[Any]]) -> dict[Key[Any], Stamped[Any]]:
        """Return the records at *keys*, but for those that do not exist."""
        lacking = [key for key in dict.fromkeys(keys) if key not in self._known]
        found = self.reader.read(self.domain, lacking).records if lacking else {}
        known = {key: stamped for key in keys if (stamped := self._known.get(key)) is not None}
        return {**found, **known}

    def _uncommitted(self, table: TableRecord) -> list[Interval]:
        """Return the members of a group's barrier that *table* lacks; none for a restatement."""
        intervals = self.record.of(table.job) if self.record.is_group else ()
        return [interval for interval in intervals if not table.progress.covers(interval)]

    def _with_staged(
        self,
        read: Provenance,
        tables: Mapping[TableName, Stamped[TableRecord] | None],
        missing: dict[Missing, None],
    ) -> Provenance:
        table = tables.get(read.table)
        if table is None:
            return read
        digest, lacking = self.read_by(read.table, table.record.job, read.low, read.high, table.record)
        missing.update(dict.fromkeys(lacking))
        return replace(read, staged=digest)

    def read_by(
        self,
        table: TableName,
        writer: JobName,
        low: datetime | None,
        high: datetime,
        record: TableRecord | None = None,
    ) -> tuple[str, tuple[Missing, ...]]:
        """Return the digest of the staged epochs that replace committed ones of ``(low, high]`` of *table*.

        :param writer: the job that owns the table. :param record: of the table; None reads it.
        :return: beside it, the members that are not staged yet.
        """
        found, missing = [], []
        for interval, attempt in self._in_range(table, writer, low, high, record):
            if attempt is None:
                missing.append(self._lacking(table, writer, interval))
            else:
                found.append(_named(writer, interval, attempt))
        return digest_of(found), tuple(missing)

    def _lacking(self, table: TableName, writer: JobName, interval: Interval) -> Missing:
        """Return why *interval* is missing: its task brings it, unless that has staged it by an earlier declaration."""
        what = "group" if self.record.is_group else "restatement"
        key = epoch_key(self.domain, writer, interval.start)
        stamped = self._read([key]).get(key)
        is_known = stamped is not None and stamped.record.interval == interval
        attempt = stamped.record.attempt if stamped is not None and is_known else None
        if attempt is None or attempt.restated_by != self.name or not attempt.staged:
            reason, way_out = f"{what} {self.name!r} has not computed {interval} of job {writer} yet", ""
        else:
            reason = f"{what} {self.name!r} has {interval} from before job {writer} was declared anew"
            way_out = f"clear the task of {writer} for {interval}, which computes it again"
        return Missing(name=table, wanted=interval.end, reason=reason, way_out=way_out)

    def output(
        self, table: TableName, writer: JobName, low: datetime | None, high: datetime, digest: str
    ) -> tuple[Staged, ...]:
        """Return the staged output that :meth:`read_by` has named by *digest*.

        :raises Conflict: members were computed again since, or are gone.
        """
        found, output = [], list[Staged]()
        for interval, attempt in self._in_range(table, writer, low, high):
            if attempt is not None:
                found.append(_named(writer, interval, attempt))
                output += self._written(table, writer, interval, attempt)
        if digest_of(found) != digest:
            raise Conflict(
                f"{table}: epochs of restatement {self.name!r} were computed again since this attempt began.",
                next_step="begin again: a new attempt reads their new rows.",
                tables=(table,),
            )
        return tuple(output)

    def _in_range(
        self,
        table: TableName,
        writer: JobName,
        low: datetime | None,
        high: datetime,
        record: TableRecord | None = None,
    ) -> Iterator[tuple[Interval, AttemptRecord | None]]:
        intervals = within(self.record.of(writer), low, high)
        if not intervals:
            return
        key, own = job_key(self.domain, writer), table_key(self.domain, table)
        reading = self._read([key] if record is not None else [key, own])
        job = reading[key].record
        if all(output.name != table for output in job.outputs):
            return  # its rows stay, which publish refuses
        if self.record.is_group:
            lacking = self._uncommitted(record or reading[own].record)
            intervals = [
                interval
                for interval in intervals
                if interval in lacking and computes(job, self.name, interval)
            ]
        for interval, stamped in self.epochs(job, intervals):
            yield interval, None if stamped is None else stamped.record.attempt

    def _written(
        self, table: TableName, job: JobName, interval: Interval, attempt: AttemptRecord
    ) -> Iterator[Staged]:
        log = scan(self.reader, self.domain, AttemptEvent, event_partition(job, interval.start))
        output = written_output(
            (entry.record for entry in log),
            [table],
            token=attempt.output_token,
            participants=attempt.participants,
        )
        for part in output[table]:
            yield Staged(interval=interval, committable=part)


def with_staged(
    tables: Mapping[TableName, Stamped[TableRecord] | None], members: Members
) -> dict[TableName, Stamped[TableRecord] | None]:
    """Return *tables* as :meth:`Members.beside` does."""
    known = {name: stamped for name, stamped in tables.items() if stamped is not None}
    found = members.beside({name: stamped.record for name, stamped in known.items()})
    return {**tables, **{name: replace(stamped, record=found[name]) for name, stamped in known.items()}}


def restatement_of(
    reader: MetadataReader, domain: DomainName, name: RestatementId
) -> Stamped[RestatementRecord]:
    """Return the record of the restatement *name*.

    :raises UnknownName: no such restatement in the domain.
    """
    key = restatement_key(domain, name)
    stamped = reader.read(domain, [key]).get(key)
    if stamped is None:
        raise unknown(domain, name)
    return stamped


def revert_of(
    reader: MetadataReader, domain: DomainName, name: RestatementId
) -> tuple[RestatementId, RestatementRecord] | None:
    """Return the restatement that takes *name* back, with its record; None without one."""
    revert = name_of_revert(name)
    stamped = reader.read(domain, [key := restatement_key(domain, revert)]).get(key)
    return (revert, stamped.record) if stamped is not None and stamped.record.reverts == name else None


def unknown(domain: DomainName, name: RestatementId) -> UnknownName:
    return UnknownName(
        f"domain {domain!r} has no restatement {name!r}.",
        next_step="see `airflow epochs restate list`.",
        restatement=name,
    )


def _named(job: JobName, interval: Interval, attempt: AttemptRecord) -> StagedEpoch:
    return StagedEpoch(job=job, interval=interval, revision=attempt.revision, token=attempt.output_token)
