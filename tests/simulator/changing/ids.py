"""A table of others whose rows have ids that grow: some of them can be seen only after greater ones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random

from airflow_provider.domain.errors import Unavailable
from airflow_provider.domain.source_bounds import BoundsRequest, Late, SourceBounds, SourceRecord, Span


@dataclass(slots=True)
class Ids:
    """The rows of the table.

    :param least: how many come at least, whenever it is asked. :ivar seen: their ids in the order in which they could
        be seen.
    """

    random: Random
    least: int = 0
    seen: list[int] = field(default_factory=list)
    _late: list[int] = field(default_factory=list)
    _last: int = 0
    _counted: dict[tuple[int | None, int | None], int] = field(default_factory=dict)

    def grow(self) -> None:
        """Let some rows come; the transaction of a few of them goes on."""
        for _ in range(self.random.randrange(self.least, self.least + 3)):
            self._last += 1
            (self._late if self.random.random() < 0.3 else self.seen).append(self._last)
        if not self.seen:
            self._last += 1
            self.seen.append(self._last)

    def come_late(self) -> bool:
        """Let a row be seen whose id is below others; say whether there is one."""
        if not self._late:
            return False
        self.seen.append(self._late.pop(self.random.randrange(len(self._late))))
        return True

    def within(self, span: Span) -> list[int]:
        """The ids in *span*, in the order in which they could be seen."""
        return [
            number
            for number in self.seen
            if (span.low is None or number > span.low) and (span.high is None or number <= span.high)
        ]

    def read(self, span: Span) -> list[int]:
        """Those that were there when *span* was counted."""
        return [] if span.is_empty else sorted(self.within(span)[: span.rows])

    def settle(self, spans: Iterable[Span]) -> None:
        """Take away what came late, and was not counted by an attempt that is yet to record it."""
        for span in spans:
            rows = max(span.rows or 0, self._counted.get((span.low, span.high), 0))
            late = set() if span.is_empty else set(self.within(span)[rows:])
            self.seen = [number for number in self.seen if number not in late]

    def take_away(self, spans: Iterable[Span]) -> bool:
        """Take away what is not among the rows of *spans* as they are recorded; say whether there was any."""
        before = len(self.seen)
        self._counted.clear()
        self.settle(spans)
        return len(self.seen) < before

    # --- as begin asks for it ------------------------------------------------------------------------------------

    def bounds(self, asked: BoundsRequest) -> SourceBounds:
        """The ids after those of the barrier before.

        :raises Unavailable: rows came late, and no revision is to read them.
        """
        low = asked.low
        high = asked.high(max(self.seen))
        high = low if low is not None and high is not None and high < low else high
        if asked.source.late is not Late.REVISION:
            self._refuse_late(asked.before)
        span = Span(low=low, high=high)
        rows = 0 if span.is_empty else len(self.within(span))
        self._counted[low, high] = rows
        return SourceBounds(source=asked.source.name, span=Span(low=low, high=high, rows=rows))

    def _refuse_late(self, records: Iterable[SourceRecord]) -> None:
        for record in records:
            span = record.bounds.span
            if span is not None and not span.is_empty and len(self.within(span)) > (span.rows or 0):
                raise Unavailable(f"ids came late: {span}.", next_step="take them away.")

    def holds(self, bounds: SourceBounds) -> bool:
        """Whether the rows within *bounds* are as many as were counted."""
        span = bounds.span
        return span is None or span.is_empty or len(self.within(span)) == span.rows
