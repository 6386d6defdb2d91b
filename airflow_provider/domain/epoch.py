"""Epochs, attempts, their barriers, and who may begin (protocol sections 3 and 5)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from airflow_provider.domain.checks import Check, Finding
from airflow_provider.domain.errors import InvalidInput, shown
from airflow_provider.domain.identifiers import ChangeSetId, DomainName, JobName, TableName, told_apart
from airflow_provider.domain.interval import Interval, time_key
from airflow_provider.domain.record_format import since
from airflow_provider.domain.records import Key, Stamped, barrier_key
from airflow_provider.domain.roots import RootBounds
from airflow_provider.domain.topology import EdgeKind, EpochTable, OnUpstreamRevision
from airflow_provider.domain.version import Committable, TableRef


class EpochState(StrEnum):
    """State of one revision of an epoch; derived from its barriers, never stored beside them."""

    NOTHING = ""
    OPEN = "OPEN"
    PROCESSED = "PROCESSED"
    WRITTEN = "WRITTEN"
    PRECOMMIT = "PRECOMMIT"
    COMMIT = "COMMIT"
    ABORTED = "ABORTED"
    CHECKED = "CHECKED"
    """Only in the log: the job's checks have passed (R14)."""
    SKIPPED = "SKIPPED"
    """Committed, and declared to have nothing new (R5)."""
    VETOED = "VETOED"
    """Ended by a check; what was staged is kept to be looked at, until the epoch is begun again."""


_DAG_ID = re.compile(r"[\w.-]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Owner:
    """Who wants an epoch computed.

    :param dag_id: the DAG, or any name of a program outside Airflow: one that no DAG can have is not taken for a DAG's.
    :param run_id: the run; the same (dag_id, run_id) supersedes its own earlier attempts at once.
    :param generation: counts the clearings of this task; a higher one asks for a new revision.
    :param try_number: counts the tries of one generation.
    :param request_id: unique for each call of begin, which sets it: the answer to a lost reply is found by it.
    """

    dag_id: str
    run_id: str
    generation: int = 0
    try_number: int = 1
    request_id: str = ""

    @property
    def names_dag(self) -> bool:
        """Whether *dag_id* may be a DAG's, by the characters that Airflow allows there.

        Not so the USER@HOST of a program that was started by hand, and the author of a skip.
        """
        return _DAG_ID.fullmatch(self.dag_id) is not None

    @property
    def order(self) -> tuple[int, int]:
        """Attempts of one owner in their order; of equal ones the later begin wins."""
        return self.generation, self.try_number

    def same_run(self, other: Owner) -> bool:
        return (self.dag_id, self.run_id) == (other.dag_id, other.run_id)

    def same_wish(self, other: Owner) -> bool:
        """Whether both are tries of one generation."""
        return self.same_run(other) and self.generation == other.generation

    def __str__(self) -> str:
        return f"{self.dag_id}/{self.run_id} (generation {self.generation}, try {self.try_number})"


def as_owner(value: object) -> Owner:
    """:raises InvalidInput: it is none, or what it says cannot be kept or told apart."""
    if not isinstance(value, Owner):
        raise InvalidInput(
            field="owner",
            value=value,
            expected="an Owner",
            next_step="say who asks: Owner(dag_id='my program', run_id='of 2024-05-01').",
        )
    texts = {"dag_id": value.dag_id, "run_id": value.run_id}
    told_apart(texts, {"generation": value.generation, "try_number": value.try_number})
    return value


@dataclass(frozen=True, kw_only=True, slots=True)
class Provenance:
    """What one edge reads: fixed before the read, kept with the commit.

    :param low: start of the range on which the reader depends, None for the beginning of time.
    :param high: end of the range, which is the barrier of the state that is read.
    :param csn: the commit at which the state was resolved.
    :param ref: where the table format finds that state; None when the table has no commit yet.
    :param origin: where the table began at that commit: no row of before it is read, whatever is committed there.
    """

    table: TableName
    kind: EdgeKind
    low: datetime | None
    high: datetime
    csn: int
    ref: TableRef | None
    on_upstream_revision: OnUpstreamRevision = OnUpstreamRevision.CASCADE
    origin: datetime | None = field(default=None, metadata=since(2, optional=True))


@dataclass(frozen=True, kw_only=True, slots=True)
class Abandoned:
    """Output of an attempt that ended without a commit and that nobody will publish.

    :param interval: for which it was staged, where the epoch had another one in an earlier calendar (R7).
    :param left: tables that it may have written, and that the job has left since.
    :param shared: as of an :class:`AttemptRecord`.
    """

    revision: int
    token: int
    participants: int
    interval: Interval | None = None
    left: tuple[TableName, ...] = ()
    shared: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptRecord:
    """The newest attempt at an epoch.

    :param roots: what it reads of them; long lists of files stand in the roots' records.
    :param adopts: token of the earlier attempt whose WRITTEN output this one publishes; None for its own.
    :param aborted: why it ended without a commit; None while it may still publish.
    :param vetoed: it was a check that ended it (R14). :param skips: why the epoch is skipped; empty when it is not.
    :param undoes: what its begin deletes, once it has fenced those who wrote it (R16).
    :param shared: its participants join; several always do.
    :param fills: tables that lack the committed epoch, to which alone it adds what it writes; empty for all.
    """

    revision: int
    token: int
    owner: Owner
    inputs: tuple[Provenance, ...]
    input_generation: int
    roots: tuple[RootBounds, ...]
    baseline: tuple[tuple[TableName, TableRef | None], ...]
    job_revision: int
    participants: int = 1
    adopts: int | None = None
    aborted: str | None = None
    undoes: tuple[Abandoned, ...] = ()
    vetoed: bool = False
    skips: str = ""
    shared: bool = False
    fills: tuple[TableName, ...] = field(default=(), metadata=since(2))

    @property
    def output_token(self) -> int:
        """Token under which the output to publish was staged."""
        return self.token if self.adopts is None else self.adopts

    @property
    def note(self) -> str:
        """What the barrier log says of its begin."""
        adopted = f", adopts token {self.adopts}" if self.adopts is not None else ""
        skips = f", skips: {self.skips}" if self.skips else ""
        spans = "".join(f", {one.root}: {one.span}" for one in self.roots if one.span)
        return f"revision {self.revision}, input generation {self.input_generation}{adopted}{skips}{spans}"

    @property
    def end(self) -> EpochState:
        """How it ended, if it has."""
        return EpochState.VETOED if self.vetoed else EpochState.ABORTED


@dataclass(frozen=True, kw_only=True, slots=True)
class Commitment:
    """The newest committed revision of an epoch.

    :param token: of the attempt that published. :param output_token: under which its output was staged.
    :param skipped: why nothing was computed; empty when something was (R5).
    :param inputs: what it has read, and what rows of earlier revisions have read that stay in tables it lacks.
    :param root_revisions: of the roots that it read, likewise.
    :param fills: the tables to which it added a slice; empty for all.
    :param names_roots: ``root_revisions`` has all of them; older versions of the package left first revisions out.
    """

    revision: int
    token: int
    output_token: int
    owner: Owner
    change_set: ChangeSetId
    inputs: tuple[Provenance, ...]
    skipped: str = ""
    root_revisions: tuple[tuple[str, int], ...] = ()
    fills: tuple[TableName, ...] = field(default=(), metadata=since(2))
    names_roots: bool = field(default=False, metadata=since(2, optional=True))

    def revision_of(self, root: str) -> int:
        """Return the revision of *root* that it has read; 0 for none, as of what was skipped."""
        if self.skipped:
            return 0
        return dict(self.root_revisions).get(root, 0 if self.names_roots else 1)

    @property
    def state(self) -> EpochState:
        return EpochState.SKIPPED if self.skipped else EpochState.COMMIT


@dataclass(frozen=True, kw_only=True, slots=True)
class EpochRecord:
    """One epoch of one job. Its version in the store is the fence of its newest attempt."""

    interval: Interval
    token: int
    attempt: AttemptRecord | None = None
    committed: Commitment | None = None
    committed_csn: int | None = None
    """CSN of :attr:`committed` once a later write of this record has replaced the stamp that carried it."""

    @property
    def state(self) -> str:
        """For people who look into the store."""
        if self.attempt is None:
            return self.committed.state if self.committed else EpochState.NOTHING
        return EpochState.OPEN if self.attempt.aborted is None else self.attempt.end


@dataclass(frozen=True, kw_only=True, slots=True)
class LockRecord:
    """Says that an attempt is alive: expired when the store's stamp plus the time to live has passed.

    :param ended: it had expired, and the claim on the attempt's inputs was ended: it cannot be renewed (R23).
    """

    token: int
    owner: Owner
    ttl: timedelta
    ended: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class BarrierRecord:
    """An entry of the barrier log; ``sink`` is empty for the epoch as a whole.

    :param subtoken: of the participant's try; an OPEN with one says that this try began (R10).
    :param findings: of the checks that refused the output.
    """

    state: EpochState
    sink: str
    token: int
    participant: int
    owner: Owner
    committable: Committable | None = None
    note: str = ""
    findings: tuple[Finding, ...] = ()
    subtoken: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """What a worker holds between begin and publish; may be handed to another process.

    :param fence: version of the epoch's record at begin: any later attempt changes it.
    :param adopted: the output of an earlier attempt is complete: nothing needs to be computed.
    :param checks: what must hold of the output before it is published.
    :param participants: its writers. :param shared: each of them joins before it writes; several always do.
    :param participant: which of them holds this. :param subtoken: of its try, 0 for who has not joined.
    """

    domain: DomainName
    job: JobName
    interval: Interval
    revision: int
    token: int
    owner: Owner
    inputs: tuple[Provenance, ...]
    roots: tuple[RootBounds, ...]
    sinks: tuple[EpochTable, ...]
    incarnation: str
    fence: int
    ttl: timedelta
    participants: int = 1
    adopted: bool = False
    checks: tuple[Check, ...] = ()
    participant: int = 0
    subtoken: int = 0
    shared: bool = False

    @property
    def change_set(self) -> ChangeSetId:
        return change_set_id(self.job, self.interval, self.revision)

    @property
    def is_shared(self) -> bool:
        """Whether its writers join, hence a token for each try of each of them (R10)."""
        return self.shared or self.participants > 1

    def written_keys(self, token: int) -> list[Key]:
        """Where the only writer reports what it has WRITTEN under *token*; of several, the log is asked."""
        return (
            []
            if self.is_shared
            else [self._log_key(EpochState.WRITTEN, token, one.name) for one in self.sinks]
        )

    def completed_key(self, token: int) -> Key:
        """Where it stands that the attempt's code came to its end."""
        return self._log_key(EpochState.WRITTEN, token)

    def checked_key(self, token: int) -> Key:
        """Where it stands that the job's checks have passed on what was written under *token*."""
        return self._log_key(EpochState.CHECKED, token)

    def joined_key(self, participant: int, subtoken: int) -> Key:
        """Where it stands that this try of a participant began."""
        start, state = self.interval.start, EpochState.OPEN
        return barrier_key(
            self.domain,
            self.job,
            start,
            token=self.token,
            sink="",
            state=state,
            participant=participant,
            subtoken=subtoken,
        )

    def _log_key(self, state: EpochState, token: int, sink: str = "") -> Key:
        return barrier_key(self.domain, self.job, self.interval.start, token=token, sink=sink, state=state)

    def __str__(self) -> str:
        writer = f" participant {self.participant} try {self.subtoken}" if self.subtoken else ""
        return f"{self.domain}/{self.job} {self.interval} revision {self.revision} token {self.token}{writer}"

    def input(self, table: str) -> Provenance:
        """:raises InvalidInput: when the job declares no edge on *table*."""
        for one in self.inputs:
            if one.table == table:
                return one
        raise InvalidInput(
            field="input",
            value=table,
            expected=f"one of {[str(one.table) for one in self.inputs]}",
            next_step=f"declare {shown(table)} in the inputs of job {self.job!r}: what is read is fixed at begin.",
        )

    def sink(self, table: str) -> EpochTable:
        """:raises InvalidInput: when the job does not own *table*."""
        for one in self.sinks:
            if one.name == table:
                return one
        raise InvalidInput(
            field="output",
            value=table,
            expected=f"one of {[str(one.name) for one in self.sinks]}",
            next_step=f"declare {shown(table)} in the outputs of job {self.job!r}.",
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class AlreadyCommitted:
    """Answer of begin to a retry of the generation that committed."""

    domain: DomainName
    job: JobName
    interval: Interval
    revision: int
    csn: int
    change_set: ChangeSetId


@dataclass(frozen=True, kw_only=True, slots=True)
class Published:
    """Answer of publish, of the store with *incarnation*: the same for every repetition."""

    domain: DomainName
    job: JobName
    interval: Interval
    revision: int
    csn: int
    change_set: ChangeSetId
    tables: tuple[tuple[TableName, TableRef | None], ...]
    at: datetime
    incarnation: str


def committed_csn(stamped: Stamped[EpochRecord]) -> int | None:
    """CSN of the epoch's committed revision: the record's stamp while nothing was written over it."""
    if stamped.record.committed is None:
        return None
    return stamped.record.committed_csn if stamped.record.committed_csn is not None else stamped.csn


def change_set_id(job: JobName, interval: Interval, revision: int) -> ChangeSetId:
    """Id of the change set of a single epoch: the same for every attempt at the revision."""
    return ChangeSetId(f"{job}@{time_key(interval.start)}-{time_key(interval.end)}#r{revision}")


def writer_of(change_set: ChangeSetId) -> JobName:
    """Return the job of a change set of a single epoch."""
    return JobName(change_set.rpartition("@")[0])


def expired(stamped_at: datetime, ttl: timedelta, now: datetime) -> bool:
    """Whether a claim has ended, all times by the store's clock (R23)."""
    return stamped_at + ttl <= now
