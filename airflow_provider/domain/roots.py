"""Bounds of roots: what an epoch reads of a source outside of the domain (protocol sections 4 and 5, I11).

What a table of others has at a barrier is a *span*, and spans form a chain: each begins where the one of the barrier
before ends.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime

from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.file_lists import PLAIN_FILES, digest_of, packed, unpacked
from airflow_provider.domain.file_lists import BoundFile as BoundFile  # noqa: PLC0414  (part of what roots have)
from airflow_provider.domain.identifiers import JobName
from airflow_provider.domain.interval import Cadence, Interval
from airflow_provider.domain.record_format import since
from airflow_provider.domain.root_declarations import Late as Late  # noqa: PLC0414  (declared with their bounds)
from airflow_provider.domain.root_declarations import Root as Root  # noqa: PLC0414
from airflow_provider.domain.root_declarations import RootKind as RootKind  # noqa: PLC0414
from airflow_provider.domain.root_declarations import RootReads as RootReads  # noqa: PLC0414
from airflow_provider.domain.root_declarations import iceberg_root as iceberg_root  # noqa: PLC0414
from airflow_provider.domain.root_declarations import jdbc_root as jdbc_root  # noqa: PLC0414


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """What an epoch reads of a root that is a sequence: all after *low* up to *high*, ids or snapshots.

    :param low: None for the beginning. :param high: None when there is nothing yet.
    :param rows: how many there were, where nothing else tells whether they still are the same.
    :param identity: of the source, where it has one: a table that was made anew is another one.
    """

    low: int | None
    high: int | None
    rows: int | None = None
    identity: str = ""

    @property
    def is_empty(self) -> bool:
        return self.low == self.high

    def joined(self, later: Span) -> Span:
        """Return the span of this one and of *later*, which begins where this one ends."""
        rows = None if self.rows is None or later.rows is None else self.rows + later.rows
        return replace(later, low=self.low, rows=rows)

    def __str__(self) -> str:
        counted = "" if self.rows is None else f", {self.rows} rows"
        return (
            f"({'…' if self.low is None else self.low}, {'…' if self.high is None else self.high}]{counted}"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class RootBounds:
    """What every job and attempt reads of a root for one interval (I11).

    :param files: of a root that is files. :param span: of any other.
    :param revision: 1 for those that were recorded first at the barrier.
    :param digest: of the files, where the files themselves stand in the root's own record; then it is a *reference*.
    :param count: number of these files.
    """

    root: str
    files: tuple[BoundFile, ...] = ()
    span: Span | None = None
    revision: int = 1
    digest: str = field(default="", metadata=since(2))
    count: int = field(default=0, metadata=since(2))

    @property
    def reference(self) -> RootBounds:
        """What names these bounds in the records of attempts: a list of files is kept once."""
        if not self.files:
            return self
        return replace(self, files=(), digest=digest_of(self.files), count=len(self.files))

    @property
    def is_empty(self) -> bool:
        return self.span.is_empty if self.span is not None else not (self.files or self.count)

    def __str__(self) -> str:
        if self.span is not None:
            return str(self.span)
        return f"{len(self.files)} files" + (f", such as {self.files[0].uri}" if self.files else "")

    def same_as(self, other: RootBounds) -> bool:
        """Whether an epoch reads the same within both, whichever revision they are."""
        return (self.root, self.files, self.span) == (other.root, other.files, other.span)


@dataclass(frozen=True, kw_only=True, slots=True)
class RootRecord:
    """Bounds of a root for one interval; never changed. Older records do not say for which one.

    :param bounds: without their files where those are packed. :param packed: a long list of files.
    :param job: which began, or declares the root. :param reason: why they were bound anew. :param by: who did it.
    """

    bounds: RootBounds
    job: JobName
    interval: Interval | None = None
    packed: bytes = field(default=b"", metadata=since(2))
    reason: str = field(default="", metadata=since(2))
    by: str = field(default="", metadata=since(2))

    @classmethod
    def of(
        cls,
        bounds: RootBounds,
        job: JobName,
        interval: Interval,
        *,
        reason: str = "",
        by: str = "",
        packs: bool = True,
    ) -> RootRecord:
        """Return the record of *bounds*.

        :param packs: whether a long list of files is packed: not where older versions read the store.
        """
        is_long = packs and len(bounds.files) > PLAIN_FILES
        return cls(
            bounds=bounds.reference if is_long else bounds,
            job=job,
            interval=interval,
            packed=packed(bounds.files) if is_long else b"",
            reason=reason,
            by=by,
        )

    @property
    def whole(self) -> RootBounds:
        """The bounds with their files."""
        if not self.packed:
            return self.bounds
        return replace(self.bounds, files=unpacked(self.packed), digest="", count=0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """What is asked of a root's source: the bounds of one barrier.

    :param before: what is recorded at earlier barriers, the nearest first, each in its newest revision: those within
        the root's window, and of a root with spans the nearest in any case. :param after: likewise at later ones.
    :param beyond: the nearest one before those. :param past: the nearest one after them.
    :param now: by the store's clock; None where nobody asks the time.
    :param cadence: the calendar whose epoch it is; None where that is not known.
    :param committed: the newest span at the barrier of an increment that the asking job has committed. A revision ends
        where it ends: what came since is the next barrier's, so that a revision that fails takes no row along.
    """

    root: Root
    interval: Interval
    before: tuple[RootRecord, ...] = ()
    after: tuple[RootRecord, ...] = ()
    beyond: RootRecord | None = None
    past: RootRecord | None = None
    now: datetime | None = None
    cadence: Cadence | None = None
    committed: Span | None = None

    @property
    def low(self) -> int | None:
        """Where the span begins: at the end of the one before."""
        span = self.before[0].bounds.span if self.before else None
        return span.high if span else None

    @property
    def is_open(self) -> bool:
        """Whether the span ends at the newest of the source: nothing is recorded behind it, nor committed of it."""
        return self.committed is None and not (self.after and self.after[0].bounds.span)

    def high(self, newest: int | None) -> int | None:
        """Where the span ends: where the one after begins, as it was committed, or at the *newest* of the source."""
        later = self.after[0].bounds.span if self.after else None
        if later is not None:
            return later.low
        if self.committed is not None:
            return self.committed.high
        return self.low if newest is None else newest


def check_bounds(asked: Asked, bounds: RootBounds) -> None:
    """Refuse bounds that would leave a row out, or give it to two barriers.

    :raises InvalidInput: naming what does not fit.
    """
    root, span = asked.root, bounds.span
    if bounds.root != root.name or (span is not None) != root.has_spans:
        raise InvalidInput(
            field="roots", value=bounds, expected=f"bounds of the {root.kind} root {root.name!r}"
        )
    if span is None:
        return
    end = asked.high(span.high)
    if span.low != asked.low or not (asked.is_open or span.high == end):
        raise InvalidInput(
            field="roots",
            value=str(span),
            expected=f"a span of {root.name!r} from {asked.low}" + ("" if asked.is_open else f" to {end}"),
            next_step="ask the source again.",
        )


def asks_again(late: Late, newest: int, *, opened: int, committed: int, others: bool) -> bool:
    """Whether a begin asks a root's source although bounds are recorded at its barrier.

    Bounds bind those who stand on them: epochs that are committed or open. An epoch that is computed again reads what
    it has read, unless revisions are made of the root; while nothing stands on the newest bounds they are taken anew.

    :param newest: the newest revision that is recorded. :param opened: the one that this epoch's own open attempt
        reads, 0 for none. :param committed: the one that its committed revision has read, 0 for none.
    :param others: epochs of other jobs stand on the newest.
    """
    if opened == newest:
        return False
    if committed == newest:
        return late is Late.REVISION
    return not others
