"""Restatements: committed epochs that are computed again with all that has read them, and published whole (R28).

A group's barrier has the same record, of another kind: its members are computed for the first time. Pure decisions; see
docs/decisions/restatement.md and docs/decisions/commit-groups.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from shlex import quote

from airflow_provider.domain.cut import State
from airflow_provider.domain.epoch import Provenance
from airflow_provider.domain.errors import EpochBusy, InvalidInput, TopologyError
from airflow_provider.domain.format_marks import since
from airflow_provider.domain.identifiers import ChangeSetId, JobName, LeaseId, RestatementId, TableName
from airflow_provider.domain.interval import Interval, time_key
from airflow_provider.domain.keys import Stamped
from airflow_provider.domain.version import TableRecord, TableRef

REVERTIBLE = timedelta(days=7)
"""Time for which the versions that a restatement has replaced are held, and it can be reverted."""
_LONGEST = 80
"""Number of characters of a job's, table's or DAG's name in the name of a restatement."""


class ChangeSetKind(StrEnum):
    """Kind of a change set whose members are staged and published by one commit."""

    RESTATEMENT = "restatement"
    """Committed epochs that are computed again."""
    GROUP = "group"
    """The first revisions of the jobs of a commit group, at one barrier."""


class RestatementState(StrEnum):
    """State of a restatement."""

    OPEN = "open"
    PUBLISHED = "published"
    ABANDONED = "abandoned"


@dataclass(frozen=True, kw_only=True, slots=True)
class JobEpochs:
    """Epochs of one job, in the order of time."""

    job: JobName
    intervals: tuple[Interval, ...]


class Decision(StrEnum):
    """Decision about epochs that a ``hold`` edge holds."""

    JOINED = "joined"
    """They are members: computed again, and published with the others."""
    RELEASED = "released"
    """They stay on what the restatement replaces, with a label."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldDecision:
    """A decision about epochs of one job, and its author.

    :param spans: time of the epochs; neighbours are joined. :param at: the store's time.
    :param reason: why; empty where the restatement's own reason says it.
    """

    job: JobName
    spans: tuple[Interval, ...]
    decision: Decision
    by: str
    reason: str
    at: datetime

    def is_about(self, job: JobName, interval: Interval) -> bool:
        return self.job == job and any(
            span.start <= interval.start and interval.end <= span.end for span in self.spans
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldEpochs(JobEpochs):
    """Committed epochs that keep a restatement from being published. :param tables: what they have read of it."""

    tables: tuple[TableName, ...]


def epochs_of(found: Iterable[JobEpochs]) -> list[tuple[JobName, Interval]]:
    """Return each epoch with its job, job by job."""
    return [(epochs.job, interval) for epochs in found for interval in epochs.intervals]


@dataclass(frozen=True, kw_only=True, slots=True)
class RestatementRecord:
    """A change set that is planned, computed in private, and published by one commit.

    :param asked: the epochs that were asked for. :param members: these, and those that have read them.
    :param incarnation: of the store that opened it: a restored store publishes none of before.
    :param deadline: after it no epoch begins, and nothing is published.
    :param needs_approval: True if it is published only once approved.
    :param approved: digest of the output that was approved; empty without an approval.
    :param ended: why it was abandoned. :param reverts: the restatement whose rows it takes back.
    :param decisions: about epochs that ``hold`` edges hold, oldest first.
    :param rerun_of: the DAG whose runs have opened it, and whose other runs it takes in; empty if a person has.
    :param kind: of a group's barrier, the members are its jobs, also those that are not registered yet.
    :param closing_until: until then no epoch begins that would read what it replaces; None before its first such time.
    """

    reason: str
    by: str
    asked: tuple[JobEpochs, ...]
    members: tuple[JobEpochs, ...]
    incarnation: str
    state: RestatementState = RestatementState.OPEN
    deadline: datetime | None = None
    needs_approval: bool = False
    approved: str = ""
    approved_by: str = ""
    ended: str = ""
    reverts: RestatementId | None = None
    decisions: tuple[HeldDecision, ...] = field(default=(), metadata=since(2))
    rerun_of: str = field(default="", metadata=since(2))
    kind: ChangeSetKind = field(default=ChangeSetKind.RESTATEMENT, metadata=since(2))
    closing_until: datetime | None = field(default=None, metadata=since(2))

    @property
    def is_group(self) -> bool:
        return self.kind is ChangeSetKind.GROUP

    def of(self, job: JobName) -> tuple[Interval, ...]:
        """Return the members of *job*."""
        return next((found.intervals for found in self.members if found.job == job), ())

    def has(self, job: JobName, interval: Interval) -> bool:
        return interval in self.of(job)

    def is_released(self, job: JobName, interval: Interval, committed: datetime | None = None) -> bool:
        """Return True if *interval* of *job* stays on what it has read by ``hold`` edges when this is published.

        :param committed: the store's time of its commit, of which a decision before that says nothing; None for any.
        """
        return any(
            made.decision is Decision.RELEASED
            and made.is_about(job, interval)
            and (committed is None or committed <= made.at)
            for made in self.decisions
        )

    @property
    def released_jobs(self) -> tuple[JobName, ...]:
        """The jobs with released epochs."""
        return tuple(dict.fromkeys(made.job for made in self.decisions if made.decision is Decision.RELEASED))

    @property
    def epochs(self) -> Sequence[tuple[JobName, Interval]]:
        """All members, job by job."""
        return epochs_of(self.members)

    @property
    def size(self) -> int:
        """Number of members."""
        return sum(len(found.intervals) for found in self.members)

    def is_closing(self, now: datetime) -> bool:
        """Return True while no epoch begins to read what it replaces."""
        return (
            self.state is RestatementState.OPEN
            and self.closing_until is not None
            and now < self.closing_until
        )

    def closed_at(self, now: datetime, length: timedelta) -> RestatementRecord:
        """Return it closing from *now* on, after new readers have held up its publish.

        It stays as it is while it closes, and for *length* after that: its readers are never stopped for good.
        """
        until = self.closing_until
        if until is not None and now < until + length:
            return self
        return replace(self, closing_until=now + length)

    def asking(self, job: JobName, intervals: Iterable[Interval]) -> tuple[JobEpochs, ...]:
        """Return what was asked for, with *intervals* of *job*."""
        asked = {found.job: set(found.intervals) for found in self.asked}
        asked.setdefault(job, set()).update(intervals)
        return tuple(JobEpochs(job=name, intervals=tuple(sorted(asked[name]))) for name in sorted(asked))


@dataclass(frozen=True, kw_only=True, slots=True)
class StagedEpoch:
    """Name of the staged output of one member. :param token: token under which it was staged."""

    job: JobName
    interval: Interval
    revision: int
    token: int


def digest_of(epochs: Iterable[StagedEpoch]) -> str:
    """Return the digest that names exactly the output of *epochs*; empty for none."""
    lines = sorted(
        f"{epoch.job} {time_key(epoch.interval.start)} {time_key(epoch.interval.end)} "
        f"{epoch.revision} {epoch.token}"
        for epoch in epochs
    )
    return sha256("\n".join(lines).encode()).hexdigest() if lines else ""


def within(intervals: Iterable[Interval], low: datetime | None, high: datetime) -> list[Interval]:
    """Return those of *intervals* whose slices a reader of ``(low, high]`` gets."""
    return [
        interval for interval in intervals if interval.end <= high and (low is None or low < interval.end)
    ]


def as_committed(
    inputs: Iterable[Provenance], csn: int, refs: Mapping[TableName, TableRef]
) -> tuple[Provenance, ...]:
    """Return *inputs* as the commit *csn* records them: what was staged when it was read is published by it.

    :param refs: the versions that the commit makes.
    """
    return tuple(
        replace(read, csn=csn, ref=refs[read.table].lasting(), staged="") if read.staged else read
        for read in inputs
    )


def change_set_of_restatement(
    restatement: RestatementId, kind: ChangeSetKind = ChangeSetKind.RESTATEMENT
) -> ChangeSetId:
    return ChangeSetId(f"{kind} {restatement}")


def name_of_revert(restatement: RestatementId) -> RestatementId:
    """Return the name of the restatement that takes *restatement* back."""
    return RestatementId(f"{restatement}-reverted")


def held_state(table: TableName, record: TableRecord, csn: int) -> State:
    """Return the newest state of *table*, whose version a lease holds. :param record: of the table, at *csn*."""
    ends = [island.end for island in record.progress.islands]
    ref = None if record.ref is None else record.ref.lasting()
    return State(table=table, kind=record.kind, barrier=max(ends), low=None, csn=csn, ref=ref)


LEASED = "before restatement "
"""Beginning of the ids of the leases on what restatements have replaced."""


def lease_of_restatement(restatement: RestatementId) -> LeaseId:
    """Return the id of the lease on the versions that *restatement* has replaced."""
    return LeaseId(f"{LEASED}{restatement}")


def unique_name(first: str, start: datetime, unique: str) -> str:
    """Return a name for a restatement of the job, table or DAG *first*.

    It has letters of ASCII, digits, ``_``, ``-`` and ``.`` only: shells and JSON take it without quotes.

    :param start: start of the first epoch. :param unique: tells it from others with the same beginning.
    """
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", first)[:_LONGEST].strip("-.") or "restatement"
    day = f"{start:%Y-%m-%d}" if (start.hour, start.minute) == (0, 0) else f"{start:%Y-%m-%dT%H%M}"
    return f"{plain}-{day}-{unique}"


def refuse_closed(name: RestatementId, record: RestatementRecord, *, incarnation: str, now: datetime) -> None:
    """Refuse to begin or publish within a restatement that is over.

    :raises InvalidInput: it is published, abandoned, past its deadline, or of an earlier incarnation of the store.
    """
    if record.state is RestatementState.PUBLISHED:
        why, step = "is published", "open another one to compute its epochs again."
    elif record.state is RestatementState.ABANDONED:
        why, step = f"was abandoned: {record.ended}", "open another one."
    elif record.incarnation != incarnation:
        why = "was opened before the store was restored or taken over"
        step = f"`airflow epochs restate abandon {quote(name)} --reason …`, and open another one."
    elif record.deadline is not None and record.deadline <= now:
        why = f"is past its deadline, {record.deadline.isoformat()}"
        step = f"`airflow epochs restate abandon {quote(name)} --reason …`, and open another one."
    else:
        return
    raise InvalidInput(
        f"restatement {name!r} {why}.",
        next_step=step,
        field="restatement",
        value=name,
        expected="an open restatement",
    )


def is_over(record: RestatementRecord, *, incarnation: str, now: datetime) -> bool:
    """Return True if nothing is computed or published within the restatement any more: it holds no epoch."""
    return (
        record.state is not RestatementState.OPEN
        or record.incarnation != incarnation
        or (record.deadline is not None and record.deadline <= now)
    )


def state_of(record: RestatementRecord, *, is_over: bool) -> str:
    """Return the state; ``expired`` for an open restatement whose deadline or store has passed."""
    return "expired" if record.state is RestatementState.OPEN and is_over else record.state.value


def refuse_stranger(name: RestatementId, record: RestatementRecord, job: JobName, interval: Interval) -> None:
    """:raises TopologyError: *interval* of *job* is no member of the restatement."""
    if not record.has(job, interval):
        raise TopologyError(
            f"{job} {interval} is no epoch of restatement {name!r}.",
            next_step="ask for its epochs only, or open a restatement that names this one, too: `airflow epochs "
            "restate plan` shows what it would compute.",
            job=job,
            interval=interval,
        )


def of_older_version(job: JobName, interval: Interval, what: str) -> TopologyError:
    """Return the error for an epoch that is asked for by a declaration that was the job's before.

    :param what: the restatement or group.
    """
    return TopologyError(
        f"{job} {interval}: an older version of the DAG declares the job otherwise; {what} publishes what the newest "
        "declaration computes.",
        next_step="run the task by the newest declaration of the job; in Airflow, clear it with the latest version of "
        "its DAG. A declaration that was changed back counts as an older one: change something else with it.",
        job=job,
        interval=interval,
    )


def held(job: JobName, interval: Interval, restatement: RestatementId) -> EpochBusy:
    """Return the error for an epoch that *restatement*, or the barrier of a group, computes."""
    return EpochBusy(
        f"{job} {interval} is computed by restatement {restatement!r}, or the group of that name, "
        "which is not published yet.",
        next_step=f"publish it (`airflow epochs restate publish {quote(restatement)}`) or abandon it (`airflow epochs "
        f"restate abandon {quote(restatement)} --reason …`); `airflow epochs restate status {quote(restatement)}` "
        "shows how far it is.",
        job=job,
        interval=interval,
        holders=(f"restatement {restatement}",),
    )


def lacking_tables(
    own: Mapping[TableName, Stamped[TableRecord] | None], interval: Interval
) -> tuple[TableName, ...]:
    """Return the output tables that have no commit of *interval*."""
    return tuple(
        sorted(
            name
            for name, stamped in own.items()
            if stamped is None or not stamped.record.progress.covers(interval)
        )
    )


def refuse_incomplete(
    job: JobName, interval: Interval, own: Mapping[TableName, Stamped[TableRecord] | None]
) -> None:
    """Refuse to restate an epoch that some of its job's tables lack: its commit would show more than it replaces.

    :raises TopologyError: with these tables.
    """
    lacking = lacking_tables(own, interval)
    if lacking:
        span = f"{interval.start.isoformat()}/{interval.end.isoformat()}"
        raise TopologyError(
            f"{job} {interval} lacks {', '.join(lacking)}, and is restated whole.",
            next_step="abandon the restatement; clear the task, which adds them, or `airflow epochs skip "
            f"{quote(job)} {span} --reason …`; then open another one.",
            job=job,
            interval=interval,
            tables=lacking,
        )
