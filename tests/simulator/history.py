"""What any simulated domain must keep, whatever its pipelines: tokens, tries, and records that are written once."""

from __future__ import annotations

import sys
from collections import defaultdict
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from airflow_provider.domain.epoch import AttemptEvent, EpochRecord, EpochState, Provenance
from airflow_provider.domain.interval import EPOCH_ZERO, Interval
from airflow_provider.domain.records import Key, Kind
from airflow_provider.domain.source_bounds import SourceRecord
from airflow_provider.domain.version import SliceRecord, TableDelta, TableRecord
from airflow_provider.stores.base import Put


class Violation(Exception):
    """An invariant does not hold.

    :ivar invariant: its name in the protocol, section 12, or the rule.
    """

    def __init__(self, invariant: str, what: str) -> None:
        self.invariant = invariant
        super().__init__(f"{invariant}: {what}")


def expect(holds: bool, invariant: str, what: object) -> None:
    """:raises Violation: unless it *holds*."""
    if not holds:
        raise Violation(invariant, str(what))


@dataclass(frozen=True, kw_only=True, slots=True)
class Slice:
    """One revision of one epoch of one table.

    :param until: CSN of the rollback that has taken it back (R30).
    """

    interval: Interval
    csn: int
    revision: int
    rows: tuple[int, ...]
    until: int = sys.maxsize

    def is_there(self, csn: int) -> bool:
        """Whether the table has it at *csn*, or a later revision."""
        return self.csn <= csn < self.until


@dataclass(frozen=True, kw_only=True, slots=True)
class Committed:
    """The newest committed revision of an epoch."""

    job: str
    interval: Interval
    revision: int
    csn: int
    inputs: tuple[Provenance, ...]


@dataclass(slots=True)
class History:
    """The records of one domain as its transactions wrote them.

    :ivar csn: the head. :ivar tokens: newest token of each epoch. :ivar committed: by job and start.
    :ivar change_sets: CSN of each. :ivar deltas: by CSN.
    :ivar written: values that were staged within restatements, by job, start, token and table.
    """

    csn: int = 0
    tokens: dict[tuple[str, datetime], int] = field(default_factory=dict)
    epochs: dict[tuple[str, datetime], EpochRecord] = field(default_factory=dict)
    committed: dict[tuple[str, datetime], Committed] = field(default_factory=dict)
    change_sets: dict[str, int] = field(default_factory=dict)
    deltas: dict[int, tuple[TableDelta, ...]] = field(default_factory=dict)
    written: dict[tuple[str, datetime, int, str], tuple[int, ...]] = field(default_factory=dict)
    _checked: set[tuple[str, datetime, int]] = field(default_factory=set)
    _check_failed: set[tuple[str, datetime, int]] = field(default_factory=set)
    _slices: defaultdict[str, list[Slice]] = field(default_factory=lambda: defaultdict(list))
    _written_once: set[Key[Any]] = field(default_factory=set)
    _recorded: dict[Key[Any], SliceRecord] = field(default_factory=dict)
    _tries: dict[tuple[str, int, int], int] = field(default_factory=dict)

    def is_kept(self, job: str, start: datetime, token: int) -> bool:
        """Return True if checks have refused the output of *token*, and no process has begun the epoch since (R14)."""
        attempt = self.epochs[job, start].attempt if (job, start) in self.epochs else None
        return attempt is not None and attempt.check_failed and attempt.output_token == token

    def is_staged(self, job: str, start: datetime, token: int) -> bool:
        """Return True if the output of *token* waits for the publish of its restatement (R28)."""
        attempt = self.epochs[job, start].attempt if (job, start) in self.epochs else None
        holds = attempt is not None and attempt.restated_by is not None and attempt.staged
        return holds and attempt is not None and attempt.output_token == token

    def newest(self, table: str, csn: int) -> dict[datetime, Slice]:
        """The newest slice at *csn* of each epoch of *table*, visible or not, by barrier."""
        return {
            slice_.interval.end: slice_ for slice_ in self._slices[table] if slice_.csn <= csn < slice_.until
        }

    def _put(self, put: Put, numbered: bool) -> None:
        key, record = put.key, put.record
        match key.kind:
            case Kind.EPOCH:
                self._epoch(key, record, numbered)
            case Kind.LOCK:
                self._refuse_old_token(record.token, key)
            case Kind.EVENT:
                expect(key not in self._written_once, "R1", f"{key} is written twice")
                if (
                    record.state is not EpochState.ROLLED_BACK
                ):  # it names the token of the commit that is taken back
                    self._refuse_old_token(record.token, key)
                self._written_once.add(key)
                self._refuse_old_try(key, record)
                if record.state is EpochState.CHECKED:
                    job, _, start = key.partition.partition("/")
                    self._checked.add((job, moment_of(start), record.token))
            case Kind.TABLE:
                self._table(key.item, record)
            case Kind.SOURCE:
                expect(key not in self._written_once, "I11", key)
                self._written_once.add(key)
                self._source(key, record)
            case Kind.SLICE:
                known = self._recorded.get(key)
                changed = known is not None and replace(known, taken_back=True) != record
                expect(not changed and record.taken_back == (known is not None), "I2", f"{key}: {record}")
                self._recorded[key] = record

    def _epoch(self, key: Key[Any], record: EpochRecord, numbered: bool) -> None:
        name = (key.partition, record.interval.start)
        newest = self.tokens.get(name, 0)
        expect(record.token >= newest, "I5", f"{key}: token {record.token} after {newest}")
        before = self.epochs.get(name)
        known = before.committed if before else None
        if record.committed != known:
            expect(numbered, "R2", f"{key}: committed without a CSN")
        elif record.attempt is not None and record.attempt.aborted is None:
            is_new = record.token == newest + 1 or _is_staged(before, record)
            expect(is_new, "I5", f"{key}: an attempt without a new token")
        self.tokens[name] = record.token
        self.epochs[name] = record
        if record.attempt is not None and record.attempt.check_failed:
            self._check_failed.add((*name, record.attempt.output_token))

    def newest_token(self, key: Key[Any]) -> int:
        """The newest token of the epoch to which the record at *key* belongs (epoch, lock, state log)."""
        job, _, start = key.partition.partition("/")
        return self.tokens.get((job, moment_of(start or key.item)), 0)

    def _refuse_old_try(self, key: Key[Any], record: AttemptEvent) -> None:
        """Tries of a participant are numbered without gaps, and only its newest reports (R10)."""
        writer = key.partition, record.token, record.participant
        newest = self._tries.get(writer, 0)
        if record.state is EpochState.OPEN and record.participant_attempt:
            expect(
                record.participant_attempt == newest + 1,
                "R10",
                f"{key}: try {record.participant_attempt} after {newest}",
            )
            self._tries[writer] = record.participant_attempt
        elif record.sink:
            expect(
                record.participant_attempt == newest,
                "R10",
                f"{key}: try {record.participant_attempt}, the newest is {newest}",
            )

    def _refuse_old_token(self, token: int, key: Key[Any]) -> None:
        newest = self.newest_token(key)
        expect(token == newest, "I5", f"{key}: token {token}, the newest is {newest}")

    def _table(self, table: str, record: TableRecord) -> None:
        """Take a table's record."""
        raise NotImplementedError

    def _source(self, key: Key[Any], record: SourceRecord) -> None:
        """Take what was recorded of a source."""
        raise NotImplementedError


def _is_staged(before: EpochRecord | None, now: EpochRecord) -> bool:
    """Whether *now* says no more than that the output of the attempt is complete."""
    left = None if before is None else before.attempt
    return left is not None and not left.staged and now.attempt == replace(left, staged=True)


def moment_of(text: str) -> datetime:
    """The inverse of :func:`~airflow_provider.domain.interval.time_key`."""
    return datetime.strptime(text, "%Y%m%dT%H%M%S.%fZ").replace(tzinfo=EPOCH_ZERO.tzinfo)
