"""Bounds of sources: the part of a source outside the domain that an epoch reads (protocol sections 4 and 5, I11).

The bounds of a table that another program writes are a *span*, and spans form a chain: each begins where the span of
the barrier before ends. See docs/decisions/source-bounds.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime

from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.file_lists import PLAIN_FILES, digest_of, packed, unpacked
from airflow_provider.domain.file_lists import BoundFile as BoundFile  # noqa: PLC0414  (part of what sources have)
from airflow_provider.domain.format_marks import formerly, since
from airflow_provider.domain.identifiers import JobName
from airflow_provider.domain.interval import Cadence, Interval
from airflow_provider.domain.source_declarations import FileSource as FileSource  # noqa: PLC0414
from airflow_provider.domain.source_declarations import IcebergSource as IcebergSource  # noqa: PLC0414
from airflow_provider.domain.source_declarations import Late as Late  # noqa: PLC0414  (declared with their bounds)
from airflow_provider.domain.source_declarations import PostgresSource as PostgresSource  # noqa: PLC0414
from airflow_provider.domain.source_declarations import Source as Source  # noqa: PLC0414
from airflow_provider.domain.source_declarations import SourceKind as SourceKind  # noqa: PLC0414
from airflow_provider.domain.source_declarations import SourceReads as SourceReads  # noqa: PLC0414


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """The part of a sequence that an epoch reads: all ids or snapshots after *low* up to *high*.

    :param low: None for the beginning. :param high: None while the source is empty.
    :param rows: number of rows, if nothing else shows whether they are still the same; otherwise None.
    :param identity: id of the source, if it has one: a table that was created anew has another one.
    """

    low: int | None
    high: int | None
    rows: int | None = None
    identity: str = ""

    @property
    def is_empty(self) -> bool:
        return self.low == self.high

    def joined(self, later: Span) -> Span:
        """Return the union with *later*, which begins where this span ends."""
        rows = None if self.rows is None or later.rows is None else self.rows + later.rows
        return replace(later, low=self.low, rows=rows)

    def __str__(self) -> str:
        counted = "" if self.rows is None else f", {self.rows} rows"
        return (
            f"({'…' if self.low is None else self.low}, {'…' if self.high is None else self.high}]{counted}"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceBounds:
    """Bounds of a source for one interval: the part that every job and attempt reads (I11).

    :param files: of a source of files. :param span: of any other source.
    :param revision: number of these bounds at the barrier, from 1 on.
    :param digest: digest of the files, in a *reference*: the files themselves are in the source's own record.
    :param count: number of the files of a reference.
    """

    source: str = field(metadata=formerly("root"))
    files: tuple[BoundFile, ...] = ()
    span: Span | None = None
    revision: int = 1
    digest: str = field(default="", metadata=since(2))
    count: int = field(default=0, metadata=since(2))

    @property
    def reference(self) -> SourceBounds:
        """These bounds as records of attempts name them, without files: a list of files is stored once."""
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

    def same_as(self, other: SourceBounds) -> bool:
        """Return True if an epoch reads the same within both, whichever revision they are."""
        return (self.source, self.files, self.span) == (other.source, other.files, other.span)


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceRecord:
    """Recorded bounds of a source for one interval; never changed.

    :param bounds: the bounds, without their files if those are packed. :param packed: a long list of files.
    :param job: the job that began the epoch, or that declares the source.
    :param interval: None in records of older versions.
    :param reason: reason for which the source was bound anew. :param by: user who bound it anew.
    """

    bounds: SourceBounds
    job: JobName
    interval: Interval | None = None
    packed: bytes = field(default=b"", metadata=since(2))
    reason: str = field(default="", metadata=since(2))
    by: str = field(default="", metadata=since(2))

    @classmethod
    def of(
        cls,
        bounds: SourceBounds,
        job: JobName,
        interval: Interval,
        *,
        reason: str = "",
        by: str = "",
        packs: bool = True,
    ) -> SourceRecord:
        """Return the record of *bounds*.

        :param packs: pack a long list of files; False where older versions of the package read the store.
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
    def whole(self) -> SourceBounds:
        """The bounds with their files."""
        if not self.packed:
            return self.bounds
        return replace(self.bounds, files=unpacked(self.packed), digest="", count=0)


@dataclass(frozen=True, kw_only=True, slots=True)
class BoundsRequest:
    """A request for a source's bounds at one barrier, with the bounds recorded around it.

    :param before: bounds at earlier barriers, the nearest first, each in its newest revision: those within the source's
        window, and of a source with spans the nearest in any case. :param after: likewise at later barriers.
    :param beyond: the nearest bounds before those. :param past: the nearest bounds after those.
    :param also_read: earlier revisions at these barriers that committed epochs have read, with files that the newest
        lack: of a source of files with ``late="next"``.
    :param now: time by the store's clock; None if the request does not depend on it.
    :param cadence: calendar of the epoch; None if it is unknown.
    :param committed: the newest span of an increment at the barrier that the asking job has committed. A revision ends
        where this span ends: later rows belong to the next barrier, so that a failed revision takes no row away.
    """

    source: Source
    interval: Interval
    before: tuple[SourceRecord, ...] = ()
    after: tuple[SourceRecord, ...] = ()
    beyond: SourceRecord | None = None
    past: SourceRecord | None = None
    also_read: tuple[SourceRecord, ...] = ()
    now: datetime | None = None
    cadence: Cadence | None = None
    committed: Span | None = None

    @property
    def low(self) -> int | None:
        """Start of the span: the end of the one before."""
        span = self.before[0].bounds.span if self.before else None
        return span.high if span else None

    @property
    def is_open(self) -> bool:
        """True if the span ends at the newest id or snapshot: none is recorded after it, and none committed at it."""
        return self.committed is None and not (self.after and self.after[0].bounds.span)

    def high(self, newest: int | None) -> int | None:
        """Return the end of the span: the start of the next one, its committed end, or the source's *newest*."""
        later = self.after[0].bounds.span if self.after else None
        if later is not None:
            return later.low
        if self.committed is not None:
            return self.committed.high
        return self.low if newest is None else newest


def check_bounds(asked: BoundsRequest, bounds: SourceBounds) -> None:
    """Refuse bounds that would lose a row, or give it to two barriers.

    :raises InvalidInput: the bounds are of another source or kind, or do not join those around them.
    """
    source, span = asked.source, bounds.span
    if bounds.source != source.name or (span is not None) != source.has_spans:
        raise InvalidInput(
            field="sources", value=bounds, expected=f"bounds of the {source.kind} source {source.name!r}"
        )
    if span is None:
        return
    end = asked.high(span.high)
    if span.low != asked.low or not (asked.is_open or span.high == end):
        raise InvalidInput(
            field="sources",
            value=str(span),
            expected=f"a span of {source.name!r} from {asked.low}" + ("" if asked.is_open else f" to {end}"),
            next_step="ask the source again.",
        )


def asks_again(late: Late, newest: int, *, opened: int, committed: int, others: bool) -> bool:
    """Decide whether a begin asks a source for new bounds although its barrier has recorded ones.

    Recorded bounds stay as long as a committed or open epoch uses them. An epoch that is computed again reads the same
    bounds, unless the source is declared with ``late="revision"``. Bounds that no epoch uses are taken anew.

    :param newest: the newest recorded revision of the bounds. :param opened: the revision that this epoch's own open
        attempt reads; 0 for none. :param committed: the revision that its committed revision has read; 0 for none.
    :param others: True if epochs of other jobs use the newest revision.
    """
    if opened == newest:
        return False
    if committed == newest:
        return late is Late.REVISION
    return not others
