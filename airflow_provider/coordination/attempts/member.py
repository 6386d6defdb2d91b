"""Member of a commit: an attempt as publish has read it, and what its epoch refuses, requires and writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from shlex import quote
from typing import Any

from airflow_provider.coordination.attempts.check import refuse_unchecked
from airflow_provider.coordination.attempts.fence import fenced
from airflow_provider.coordination.attempts.fill import refuse_other_rows
from airflow_provider.coordination.attempts.join import unjoined
from airflow_provider.coordination.attempts.published_together import PublishedTogether
from airflow_provider.coordination.attempts.state_log import checked_key, state_log, written_keys
from airflow_provider.coordination.attempts.validate import refuse_invalid, rewrite_logs
from airflow_provider.coordination.commits.catch_up import refuse_behind_inputs
from airflow_provider.coordination.commits.source_dependents import later_keys, newest_required
from airflow_provider.domain.attempt_events import written_output
from airflow_provider.domain.epoch import (
    Attempt,
    AttemptEvent,
    AttemptRecord,
    Commitment,
    EpochRecord,
    EpochState,
    Provenance,
)
from airflow_provider.domain.errors import InvalidInput, TopologyError
from airflow_provider.domain.filling import beside, filled, inputs_to_validate
from airflow_provider.domain.identifiers import ChangeSetId, RestatementId, TableName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.publishing import slice_of
from airflow_provider.domain.records import (
    Key,
    Stamped,
    event_key,
    fence_of,
    lock_of,
    rewrite_log_key,
    slice_key,
)
from airflow_provider.domain.topology import Table
from airflow_provider.domain.version import Committable, Member
from airflow_provider.stores.base import Absent, Delete, MetadataReader, Put, Reading


def commit_event_key(attempt: Attempt) -> Key[AttemptEvent]:
    """Return the key of the entry that *attempt* is committed."""
    return event_key(attempt, attempt.token, EpochState.COMMIT)


def keys_of(attempt: Attempt) -> list[Key[Any]]:
    """Return the keys that publish reads for the epoch of *attempt* alone."""
    return [
        fence_of(attempt),
        commit_event_key(attempt),
        *(rewrite_log_key(attempt.domain, read.table) for read in attempt.inputs),
        *later_keys(attempt, attempt.sources),
        *written_keys(attempt, attempt.token),
        *([checked_key(attempt, attempt.token)] if attempt.checks else []),
    ]


def refuse_unknown(reader: MetadataReader, attempt: Attempt, reading: Reading) -> None:
    """:raises Fenced: the store has no record of the epoch. :raises StoreReplaced: it is another store."""
    if reading.get(fence_of(attempt)) is None or reading.head.incarnation != attempt.incarnation:
        raise fenced(reader, attempt)


def open_epoch(
    reader: MetadataReader, attempt: Attempt, reading: Reading
) -> tuple[Stamped[EpochRecord], AttemptRecord]:
    """Return the record of the epoch, and that of its newest attempt, which is *attempt*.

    :raises Fenced: it is over.
    """
    epoch = reading.of(fence_of(attempt))
    record = epoch.record.attempt
    if epoch.version != attempt.fence or record is None or record.token != attempt.token:
        raise fenced(reader, attempt)
    return epoch, record


def _refuse_apart(attempt: Attempt, record: AttemptRecord, together: PublishedTogether | None) -> None:
    """Refuse to publish a member of a restatement by itself, or another attempt with it.

    :raises InvalidInput: it is within another restatement, or none.
    """
    name = None if together is None else together.name
    if record.restatement != name or record.staged != (together is not None):
        raise InvalidInput(
            f"{attempt} is "
            + (f"within {record.restatement!r}" if record.restatement else "within no restatement")
            + ", and is published with that alone.",
            next_step=f"`airflow epochs restate publish {quote(record.restatement)}`."
            if record.restatement
            else "publish it by itself.",
            field="attempt",
            value=str(attempt),
            expected=f"an attempt within {name!r}" if name else "an attempt within no restatement",
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class MemberAttempt:
    """Attempt that is to be committed, as it was read.

    :param log: events of its output. :param output: staged output by table, of all that the attempt has WRITTEN.
    """

    attempt: Attempt
    epoch: Stamped[EpochRecord]
    record: AttemptRecord
    log: Sequence[AttemptEvent]
    output: Mapping[TableName, tuple[Committable, ...]]

    @classmethod
    def of(
        cls,
        reader: MetadataReader,
        attempt: Attempt,
        records: tuple[Stamped[EpochRecord], AttemptRecord],
        reading: Reading,
        together: PublishedTogether | None = None,
    ) -> MemberAttempt:
        """Return the member, once nothing refuses it.

        :param records: as :func:`open_epoch` returns them. :param together: the restatement that publishes it.
        :raises Conflict: its inputs have changed meanwhile. :raises InvalidInput: it is not WRITTEN, or not checked.
        """
        epoch, record = records
        _refuse_apart(attempt, record, together)
        if together is not None:
            together.refuse_other_reads(attempt, record, rewrite_logs(reading, attempt.domain, record.inputs))
        refuse_invalid(attempt, inputs_to_validate(record, epoch.record), reading)
        refuse_behind_inputs(attempt, record, reading, () if together is None else together.epochs)
        log = events_of_output(reader, attempt, record, reading)
        output = whole_output(attempt, record, log)
        refuse_unchecked(reader, attempt, reading, record)
        refuse_other_rows(reader, attempt, () if record.skips else record.fills, output)
        return cls(attempt=attempt, epoch=epoch, record=record, log=log, output=output)

    @property
    def interval(self) -> Interval:
        return self.attempt.interval

    @property
    def member(self) -> Member:
        """Return its entry in the commit record."""
        epoch, revision = self.epoch.record, self.attempt.revision
        anew = epoch.committed is None and revision > 1
        return Member(job=self.attempt.job, interval=self.interval, revision=revision, anew=anew)

    @property
    def published(self) -> tuple[Table, ...]:
        """Return the tables to which it adds a slice, in the order of their names."""
        names = self.record.fills or [sink.name for sink in self.attempt.sinks]
        return tuple(
            sorted((sink for sink in self.attempt.sinks if sink.name in names), key=lambda sink: sink.name)
        )

    def required(self, reading: Reading) -> tuple[Absent, ...]:
        """Return requirements that no participant joins, and that the newest revisions of its sources were read.

        :raises Conflict: a later revision is recorded.
        """
        # A fill reads the same bounds as the commit that it completes: newer bounds do not matter.
        newest = () if self.record.fills else self.record.sources
        sources = newest_required(self.attempt, newest, reading)
        return (*unjoined(self.attempt, self.log), *sources)

    def held(self, reading: Reading) -> Iterator[Stamped[Any]]:
        """Yield records that must still be as they were read.

        A newer attempt writes the epoch's record (R10), and a rewrite of an input writes that input's rewrite log
        (R13): either of them makes the commit fail.
        """
        yield self.epoch
        for read in self.record.inputs:
            yield reading.of(rewrite_log_key(self.attempt.domain, read.table))

    def updates(
        self, change_set: ChangeSetId, stay: tuple[TableName, ...], inputs: tuple[Provenance, ...]
    ) -> Iterator[Put | Delete]:
        """Yield the updates of its epoch's own records, of which the tables *stay* keep earlier rows.

        :param inputs: what it has read, as its commit records it.
        """
        yield Put(self.epoch.key, self._committed(change_set, stay, inputs))
        yield Delete(lock_of(self.attempt))
        yield Put(commit_event_key(self.attempt), self._event)

    def slice_update(self, table: TableName, change_set: ChangeSetId) -> Put:
        found = slice_of(self.attempt, self.output[table], self.record.output_token, change_set)
        return Put(slice_key(self.attempt, table), found)

    def _committed(
        self, change_set: ChangeSetId, stay: tuple[TableName, ...], inputs: tuple[Provenance, ...]
    ) -> EpochRecord:
        attempt, record, epoch = self.attempt, self.record, self.epoch.record
        commitment = Commitment(
            revision=attempt.revision,
            token=attempt.token,
            output_token=record.output_token,
            owner=attempt.owner,
            change_set=change_set,
            inputs=inputs,
            skipped=record.skips,
            source_revisions=tuple((bounds.source, bounds.revision) for bounds in record.sources),
            names_sources=True,
        )
        committed = filled(epoch.committed, commitment, record.fills)
        if stay and epoch.committed is not None:
            committed = beside(epoch.committed, committed)
        replaced = epoch.committed if record.restatement is not None else None
        return replace(epoch, attempt=None, committed=committed, committed_csn=None, replaced=replaced)

    @property
    def _event(self) -> AttemptEvent:
        record = self.record
        return AttemptEvent(
            state=EpochState.COMMIT,
            sink="",
            token=record.token,
            participant=0,
            owner=self.attempt.owner,
            note=f"skipped: {record.skips}" if record.skips else "",
        )


def refuse_staying(
    restatement: RestatementId, members: Iterable[tuple[MemberAttempt, Sequence[TableName]]]
) -> None:
    """Refuse to publish members that leave rows of their earlier revision in tables that they do not write.

    These rows were computed from what the restatement replaces.

    :param members: each with these tables.
    :raises TopologyError: with the first such epoch.
    """
    for member, tables in members:
        if tables:
            raise TopologyError(
                f"{member.attempt.job} {member.interval} is computed again by restatement {restatement!r} without "
                f"{', '.join(tables)}, whose rows come from what it replaces.",
                next_step="declare these tables again, and compute the epoch again within the restatement.",
                job=member.attempt.job,
                interval=member.interval,
                tables=tuple(tables),
            )


def events_of_output(
    reader: MetadataReader, attempt: Attempt, record: AttemptRecord, reading: Reading
) -> list[AttemptEvent]:
    """Return the events of the output. With one writer *reading* has them, unless the output is adopted."""
    if attempt.is_shared:
        return [event.record for event in state_log(reader, attempt)]
    keys = written_keys(attempt, record.output_token)
    if record.adopts is not None:
        reading = reader.read(attempt.domain, keys)
    return [reading.of(key).record for key in keys if key in reading.records]


def whole_output(
    attempt: Attempt, record: AttemptRecord, log: Sequence[AttemptEvent]
) -> Mapping[TableName, tuple[Committable, ...]]:
    """Return the staged output of every sink.

    :raises InvalidInput: a sink is not WRITTEN.
    """
    names = [sink.name for sink in attempt.sinks]
    output = written_output(log, names, token=record.output_token, participants=record.participants)
    unwritten = [name for name in names if name not in output]
    if unwritten:
        raise InvalidInput(
            f"{attempt}: not WRITTEN: {', '.join(unwritten)}.",
            next_step="write every declared output, an empty one too, before the epoch ends.",
            field="outputs",
            value=sorted(output),
            expected=str([str(name) for name in names]),
        )
    return output
