"""What jobs have read of a source, counted: each row once by every job that has gone on past it (R5, I11)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from airflow_provider.domain.epoch import EpochRecord
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.roots import RootBounds, Span
from airflow_provider.testing.simulation.history import expect

Rows = Callable[[Span], list[int]]
"""Return the ids within a span."""
Bounds = Callable[[Interval, int], RootBounds | None]
"""Return what is recorded of an interval in a revision, 0 for the newest."""


@dataclass(frozen=True, slots=True)
class _Step:
    """A committed epoch. :param revision: the one that it has read, 0 when it was skipped."""

    epoch: Interval
    revision: int


@dataclass(slots=True)
class Counted:
    """The epochs of the jobs that read the source.

    :param readers: names of these jobs. :param is_own: says whether a file lies where an epoch looks first.
    :ivar excused: skipped epochs of which the person knows that rows are left
        there, or cannot know: another job stands on them, or the answer was lost.
    """

    readers: frozenset[str] = frozenset()
    is_own: Callable[[str, Interval], bool] = lambda _uri, _epoch: True
    excused: set[tuple[str, Interval]] = field(default_factory=set)
    _committed: dict[tuple[str, Interval], int] = field(default_factory=dict)
    _standing: defaultdict[Interval, set[str]] = field(default_factory=lambda: defaultdict(set))
    _skipped: defaultdict[Interval, set[str]] = field(default_factory=lambda: defaultdict(set))
    _unanswered: set[tuple[str, Interval]] = field(default_factory=set)
    _answered: set[tuple[str, Interval]] = field(default_factory=set)

    def take(self, job: str, record: EpochRecord) -> None:
        """Take the record of an epoch as it was written."""
        if job not in self.readers:
            return
        epoch, attempt, done = record.interval, record.attempt, record.committed
        is_open = attempt is not None and attempt.aborted is None
        read = 0 if done is None else done.revision_of("landing")
        if done is not None:
            self._committed[job, epoch] = read
        stands = bool(read) or (is_open and attempt is not None and bool(attempt.roots))
        skips = (done is not None and not read) or (is_open and attempt is not None and bool(attempt.skips))
        for names, holds in ((self._standing[epoch], stands), (self._skipped[epoch], skips)):
            names.add(job) if holds else names.discard(job)
        for one in self._skipped[epoch]:
            if self._standing[epoch] - {one}:
                self.excused.add((one, epoch))

    def bound_anew(self, epoch: Interval) -> None:
        """Take that a person has bound *epoch* anew, although it is skipped."""
        self.excused.update((job, epoch) for job in self._skipped[epoch])

    def ask_to_skip(self, job: str, epoch: Interval) -> None:
        """Take that a person is about to skip *epoch*."""
        if (job, epoch) not in self._answered:
            self._unanswered.add((job, epoch))

    def answer(self, job: str, epoch: Interval, *, left: bool) -> None:
        """Take the answer. :param left: it names what nothing reads."""
        self._unanswered.discard((job, epoch))
        self._answered.add((job, epoch))
        if left:
            self.excused.add((job, epoch))

    # --- the end ------------------------------------------------------------------------------------------------

    def check(self, bounds: Bounds, rows: Rows) -> None:
        """Count what every job has read.

        :raises Violation: a row that it has passed by, or has read at two barriers.
        """
        for job in sorted(self.readers):
            for steps in self._runs(job):
                self._check_spans(job, steps, bounds, rows)
                self._check_files(job, steps, bounds)

    def _runs(self, job: str) -> Iterator[list[_Step]]:
        """The epochs of *job* that follow each other without a hole."""
        known = sorted((epoch, read) for (name, epoch), read in self._committed.items() if name == job)
        run: list[_Step] = []
        for epoch, read in known:
            if run and run[-1].epoch.end != epoch.start:
                yield run
                run = []
            run.append(_Step(epoch, read))
        yield run

    def _is_excused(self, job: str, epoch: Interval) -> bool:
        return (job, epoch) in self.excused or (job, epoch) in self._unanswered

    def _check_spans(self, job: str, steps: list[_Step], bounds: Bounds, rows: Rows) -> None:
        edge: int | None = None
        knows_edge, left = False, False
        for step in steps:
            found = bounds(step.epoch, step.revision)
            span = None if found is None else found.span
            if span is None:  # of a skipped epoch nothing need be recorded
                left |= self._is_excused(job, step.epoch)
                continue
            if not step.revision:
                left |= self._is_excused(job, step.epoch)
                edge, knows_edge = (edge if knows_edge else span.low), True
                continue
            where = f"{job} {step.epoch} has read {span}, what it has read before ends at {edge}"
            if knows_edge and span.low != edge:
                expect((span.low or 0) > (edge or 0), "I11", f"{where}: rows are read twice")
                lost = rows(Span(low=edge, high=span.low))
                expect(left or not lost, "I11", f"{where}: no epoch reads {lost}")
            edge, knows_edge, left = span.high, True, False

    def _check_files(self, job: str, steps: list[_Step], bounds: Bounds) -> None:
        seen: dict[str, Interval] = {}
        for step in steps:
            found = bounds(step.epoch, step.revision)
            uris = [] if found is None else [file.uri for file in found.files]
            if step.revision:
                twice = sorted(set(uris) & set(seen))
                expect(not twice, "I11", f"{job} has read {twice} for {step.epoch} and before")
                seen |= dict.fromkeys(uris, step.epoch)
            elif not self._is_excused(job, step.epoch) and not self._standing[step.epoch]:
                late = [uri for uri in uris if not self.is_own(uri, step.epoch)]
                expect(not late, "I11", f"{job} has skipped {step.epoch}: no epoch reads {late}")
