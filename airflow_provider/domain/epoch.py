"""Epochs, their attempts and owners, and the state log (protocol sections 3 and 5)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from airflow_provider.domain.checks import Check, Finding
from airflow_provider.domain.epoch_id import AttemptId, RevisionId
from airflow_provider.domain.errors import InvalidInput, shown
from airflow_provider.domain.format_marks import formerly, members_formerly, since
from airflow_provider.domain.identifiers import ChangeSetId, RestatementId, TableName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.keys import Stamped
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.source_bounds import SourceBounds
from airflow_provider.domain.topology import EdgeKind, OnUpstreamRevision, Table
from airflow_provider.domain.version import Committable, TableDelta, TableRef


@members_formerly(CHECK_FAILED="VETOED")
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
    """The job's checks have passed (R14); only in the log."""
    SKIPPED = "SKIPPED"
    """Committed, and declared to have nothing new (R5)."""
    ROLLED_BACK = "ROLLED_BACK"
    """Was committed, and is not committed any more since its domain was rolled back (R30); only in the log."""
    CHECK_FAILED = "CHECK_FAILED"
    """Ended by a failed check; the staged output is kept for inspection until the epoch is begun again."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Provenance:
    """The state that one edge reads: fixed before the read, kept with the commit.

    :param low: start of the range on which the reader depends; None for the beginning of time.
    :param high: end of the range: the barrier of the state that is read.
    :param csn: the commit at which the state was resolved.
    :param ref: version of the table with that state; None if the table has no commit yet.
    :param origin: origin of the table at that commit: no earlier row is read, whatever is committed there.
    :param staged: digest of the staged epochs of the reader's restatement that are read in place of the committed ones;
        empty for none, and in a commit.
    """

    table: TableName
    kind: EdgeKind
    low: datetime | None
    high: datetime
    csn: int
    ref: TableRef | None
    on_upstream_revision: OnUpstreamRevision = OnUpstreamRevision.CASCADE
    origin: datetime | None = field(default=None, metadata=since(2, optional=True))
    staged: str = field(default="", metadata=since(2))


@dataclass(frozen=True, kw_only=True, slots=True)
class Abandoned:
    """Output of an attempt that ended without a commit, and that will never be published.

    :param interval: interval for which it was staged, if the epoch had another one in an earlier calendar (R7).
    :param left: tables that the attempt may have written, and that the job no longer declares.
    :param shared: see :class:`AttemptRecord`.
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

    :param input_generation: number of the set of inputs; another set gets a higher one.
    :param sources: bounds of the sources that it reads; long lists of files are in the records of the sources.
    :param adopts: token of the earlier attempt whose WRITTEN output this one publishes; None for its own output.
    :param aborted: reason why it ended without a commit; None while it may still publish.
    :param check_failed: True if a check ended it (R14). :param skips: reason of a skip; empty if the epoch is computed.
    :param rolls_back: output of earlier attempts that its begin deletes, once it has fenced their writers (R16).
    :param shared: True if its participants join; several participants always do.
    :param fills: the tables that lack the committed epoch and alone get rows from this attempt; empty for all tables.
    :param restatement: the restatement that will publish it; empty for an attempt that publishes its own epoch.
    :param staged: True once its output is complete and checked, and waits for the restatement: it has no lock then.
    """

    revision: int
    token: int
    owner: Owner
    inputs: tuple[Provenance, ...]
    input_generation: int
    sources: tuple[SourceBounds, ...] = field(metadata=formerly("roots"))
    baseline: tuple[tuple[TableName, TableRef | None], ...]
    job_revision: int
    participants: int = 1
    adopts: int | None = None
    aborted: str | None = None
    rolls_back: tuple[Abandoned, ...] = field(default=(), metadata=formerly("undoes"))
    check_failed: bool = field(default=False, metadata=formerly("vetoed"))
    skips: str = ""
    shared: bool = False
    fills: tuple[TableName, ...] = field(default=(), metadata=since(2))
    restatement: RestatementId | None = field(default=None, metadata=since(2))
    staged: bool = field(default=False, metadata=since(2))

    @property
    def output_token(self) -> int:
        """Token under which the output to publish was staged."""
        return self.token if self.adopts is None else self.adopts

    @property
    def note(self) -> str:
        """Note of its begin in the state log."""
        adopted = f", adopts token {self.adopts}" if self.adopts is not None else ""
        skips = f", skips: {self.skips}" if self.skips else ""
        within = f", restatement {self.restatement}" if self.restatement else ""
        spans = "".join(f", {bounds.source}: {bounds.span}" for bounds in self.sources if bounds.span)
        return f"revision {self.revision}, input generation {self.input_generation}{adopted}{skips}{within}{spans}"

    @property
    def restated_by(self) -> RestatementId | None:
        """Restatement that holds the epoch by this attempt; None once it has ended."""
        return self.restatement if self.aborted is None else None

    @property
    def end(self) -> EpochState:
        """State in which the attempt ended, if it has ended without a commit."""
        return EpochState.CHECK_FAILED if self.check_failed else EpochState.ABORTED


@dataclass(frozen=True, kw_only=True, slots=True)
class Commitment:
    """The newest committed revision of an epoch.

    :param token: token of the attempt that published. :param output_token: token under which its output was staged.
    :param skipped: reason of a skip; empty if the epoch was computed (R5).
    :param inputs: the inputs that it has read, and those of rows of earlier revisions that stay in other tables.
    :param source_revisions: (name, revision) of the sources that it has read, likewise.
    :param fills: the tables to which it added a slice; empty for all.
    :param names_sources: True if ``source_revisions`` is complete; older versions of the package left out first
        revisions.
    :param stayed_sources: sources that only rows of earlier revisions have read, which stay in tables that this
        revision did not write.
    """

    revision: int
    token: int
    output_token: int
    owner: Owner
    change_set: ChangeSetId
    inputs: tuple[Provenance, ...]
    skipped: str = ""
    source_revisions: tuple[tuple[str, int], ...] = field(default=(), metadata=formerly("root_revisions"))
    fills: tuple[TableName, ...] = field(default=(), metadata=since(2))
    names_sources: bool = field(default=False, metadata=since(2, optional=True))
    stayed_sources: tuple[str, ...] = field(default=(), metadata=since(2, optional=True))

    def revision_of(self, source: str) -> int:
        """Return the revision of *source* that the epoch has read; 0 for none, and for a skipped epoch."""
        if self.skipped:
            return 0
        return dict(self.source_revisions).get(source, 0 if self.names_sources else 1)

    @property
    def state(self) -> EpochState:
        return EpochState.SKIPPED if self.skipped else EpochState.COMMIT


@dataclass(frozen=True, kw_only=True, slots=True)
class TakenBack:
    """The newest revision of an epoch that a rollback has taken back: later revisions have higher numbers.

    :param csn: CSN of the rollback. :param owner: of the attempt that had committed the revision.
    """

    revision: int
    csn: int
    owner: Owner


@dataclass(frozen=True, kw_only=True, slots=True)
class EpochRecord:
    """One epoch of one job. The version of the record in the store is the fence of the newest attempt.

    :param replaced: what was committed before, if a restatement has replaced it; for its revert (R30).
    :param taken_back: what the last rollback has taken back, also once the epoch is committed again.
    """

    interval: Interval
    token: int
    attempt: AttemptRecord | None = None
    committed: Commitment | None = None
    committed_csn: int | None = None
    """CSN of :attr:`committed` once a later write of this record has replaced the stamp that carried it."""
    replaced: Commitment | None = field(default=None, metadata=since(2))
    taken_back: TakenBack | None = field(default=None, metadata=since(2))

    def has_taken_back(self, csn: int | None) -> bool:
        """Return True if a rollback has taken back what the commit *csn* has committed of the epoch."""
        return self.taken_back is not None and (csn or 0) < self.taken_back.csn

    @property
    def state(self) -> str:
        """State as text, for a reader of the raw store."""
        if self.attempt is None:
            return self.committed.state if self.committed else EpochState.NOTHING
        return EpochState.OPEN if self.attempt.aborted is None else self.attempt.end


@dataclass(frozen=True, kw_only=True, slots=True)
class LockRecord:
    """Lock of a live attempt; it expires at the store's stamp plus the time to live.

    :param ended: True if it had expired and the claim on the attempt's inputs was ended: it cannot be renewed (R23).
    """

    token: int
    owner: Owner
    ttl: timedelta
    ended: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptEvent:
    """An entry of the state log.

    :param sink: name of a table; empty for the epoch as a whole.
    :param participant_attempt: number of the participant's try; an OPEN entry with one records that the try began
        (R10).
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
    participant_attempt: int = field(default=0, metadata=formerly("subtoken"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt(AttemptId):
    """An open attempt, as a worker holds it between begin and publish; may be passed to another process.

    :param fence: version of the epoch's record at begin: any later attempt changes it.
    :param adopted: True if it adopts complete output of an earlier attempt: nothing needs to be computed.
    :param checks: checks that must pass before the output is published.
    :param participants: number of writers.
    :param shared: True if each writer joins before it writes; several writers always do.
    :param restatement: the restatement that will publish it; None for an attempt that publishes its own epoch.
    :param participant: number of the writer that holds this value.
    :param participant_attempt: number of that writer's try; 0 for a writer that has not joined.
    """

    owner: Owner
    inputs: tuple[Provenance, ...]
    sources: tuple[SourceBounds, ...]
    sinks: tuple[Table, ...]
    incarnation: str
    fence: int
    ttl: timedelta
    participants: int = 1
    adopted: bool = False
    checks: tuple[Check, ...] = ()
    participant: int = 0
    participant_attempt: int = 0
    shared: bool = False
    restatement: RestatementId | None = None

    @property
    def is_shared(self) -> bool:
        """True if its writers join, so that each try of each writer has a token of its own (R10)."""
        return self.shared or self.participants > 1

    def __str__(self) -> str:
        writer = (
            f" participant {self.participant} try {self.participant_attempt}"
            if self.participant_attempt
            else ""
        )
        return AttemptId.__str__(self) + writer

    def input(self, table: str) -> Provenance:
        """Return the provenance of the edge on *table*.

        :raises InvalidInput: the job declares no edge on *table*.
        """
        for read in self.inputs:
            if read.table == table:
                return read
        raise InvalidInput(
            field="input",
            value=table,
            expected=f"one of {[str(read.table) for read in self.inputs]}",
            next_step=f"declare {shown(table)} in the inputs of job {self.job!r}: what is read is fixed at begin.",
        )

    def sink(self, table: str) -> Table:
        """Return the output *table*.

        :raises InvalidInput: the job does not own *table*.
        """
        for sink in self.sinks:
            if sink.name == table:
                return sink
        raise InvalidInput(
            field="output",
            value=table,
            expected=f"one of {[str(sink.name) for sink in self.sinks]}",
            next_step=f"declare {shown(table)} in the outputs of job {self.job!r}.",
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class AlreadyCommitted(RevisionId):
    """Reply of begin to a retry of the generation that committed."""

    csn: int


@dataclass(frozen=True, kw_only=True, slots=True)
class AlreadyStaged(RevisionId):
    """Reply of begin within a restatement: the epoch is computed, and waits for the restatement to be published."""

    restatement: RestatementId


@dataclass(frozen=True, kw_only=True, slots=True)
class Published(RevisionId):
    """Reply of publish: the same for every repetition.

    :param incarnation: of the store that committed. :param at: time of the commit, by the store's clock.
    """

    csn: int
    tables: tuple[tuple[TableName, TableRef | None], ...]
    at: datetime
    incarnation: str

    @classmethod
    def of(
        cls, name: RevisionId, csn: int, tables: Iterable[TableDelta], at: datetime, incarnation: str
    ) -> Published:
        """Return the reply for the revision *name*, whose commit has written *tables*."""
        written = tuple((delta.table, delta.ref) for delta in tables)
        return cls(
            name.domain,
            name.job,
            name.interval,
            name.revision,
            csn=csn,
            tables=written,
            at=at,
            incarnation=incarnation,
        )


def committed_csn(stamped: Stamped[EpochRecord]) -> int | None:
    """Return the CSN of the epoch's committed revision; None if it has none.

    The CSN is the record's stamp until a later write of the record replaces it.
    """
    if stamped.record.committed is None:
        return None
    return stamped.record.committed_csn if stamped.record.committed_csn is not None else stamped.csn


def has_expired(stamped_at: datetime, ttl: timedelta, now: datetime) -> bool:
    """Return True if a claim has expired; all times by the store's clock (R23)."""
    return stamped_at + ttl <= now
