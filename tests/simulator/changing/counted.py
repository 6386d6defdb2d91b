"""What jobs have read of a source, counted: each row once by every job that has gone on past it (R5, I11)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from airflow_provider.domain.epoch import EpochRecord
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.source_bounds import SourceBounds, Span
from tests.simulator.history import expect

Rows = Callable[[Span], list[int]]
"""Return the ids within a span."""
Bounds = Callable[[str, Interval, int], SourceBounds | None]
"""Return what is recorded of a source for an interval in a revision, 0 for the newest."""


@dataclass(frozen=True, slots=True)
class _Step:
    """A committed epoch. :param read: the revision of each source that it has read, none when it was skipped."""

    epoch: Interval
    read: Mapping[str, int]


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
    _committed: dict[tuple[str, Interval], Mapping[str, int]] = field(default_factory=dict)
    _open: dict[tuple[str, Interval], Mapping[str, int]] = field(default_factory=dict)
    _standing: defaultdict[Interval, set[str]] = field(default_factory=lambda: defaultdict(set))
    _skipped: defaultdict[Interval, set[str]] = field(default_factory=lambda: defaultdict(set))
    _unanswered: set[tuple[str, Interval]] = field(default_factory=set)
    _answered: set[tuple[str, Interval]] = field(default_factory=set)

    def take(self, job: str, record: EpochRecord) -> bool:
        """Take the record of an epoch as it was written; say whether it has read anything else than before."""
        if job not in self.readers:
            return False
        epoch, attempt, done = record.interval, record.attempt, record.committed
        is_open = attempt is not None and attempt.aborted is None
        read = {} if done is None or done.skipped else dict(done.source_revisions)
        is_new = done is not None and self._committed.get((job, epoch)) != read
        if done is not None:
            self._committed[job, epoch] = read
        self._open.pop((job, epoch), None)
        if attempt is not None and is_open:
            self._open[job, epoch] = {bounds.source: bounds.revision for bounds in attempt.sources}
        stands = bool(read) or bool(self._open.get((job, epoch)))
        skips = (done is not None and not read) or (is_open and attempt is not None and bool(attempt.skips))
        for names, holds in ((self._standing[epoch], stands), (self._skipped[epoch], skips)):
            names.add(job) if holds else names.discard(job)
        for name in self._skipped[epoch]:
            if self._standing[epoch] - {name}:
                self.excused.add((name, epoch))
        return is_new

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

    # --- what was read --------------------------------------------------------------------------------------------

    def files_of(self, job: str, bounds: Bounds) -> dict[str, Interval]:
        """Return the files that *job* has read, each with its epoch.

        :raises Violation: two committed epochs have read one file, by whichever names of the source.
        """
        seen: dict[str, Interval] = {}
        for step in self._steps(job):
            found = [bounds(name, step.epoch, revision) for name, revision in step.read.items()]
            uris = {file.uri for bound in found if bound is not None for file in bound.files}
            twice = sorted(uris & set(seen))
            other = seen[twice[0]] if twice else None
            expect(not twice, "I11", f"{job} has read {twice} for {step.epoch} and for {other}")
            seen |= dict.fromkeys(uris, step.epoch)
        return seen

    def bound_by_open(self, job: str, bounds: Bounds) -> set[str]:
        """Return the files that open attempts of *job* read; also of runs that died, which doctor names."""
        stands = [(at, sources) for (name, at), sources in self._open.items() if name == job]
        found = [bounds(name, at, revision) for at, sources in stands for name, revision in sources.items()]
        return {file.uri for bound in found if bound is not None for file in bound.files}

    def epochs_of(self, job: str) -> list[tuple[Interval, bool]]:
        """Return the committed epochs of *job*, and of each whether it was skipped."""
        return [(step.epoch, not step.read) for step in self._steps(job)]

    def is_excused(self, job: str, epoch: Interval) -> bool:
        """Whether the person knows that rows are left at a skipped *epoch*, or cannot know."""
        return (job, epoch) in self.excused or (job, epoch) in self._unanswered

    # --- the end ------------------------------------------------------------------------------------------------

    def check(self, names: Sequence[str], bounds: Bounds, rows: Rows, told: Collection[str]) -> None:
        """Count what every job has read.

        :param names: of the sources by which the source was read. :param told: files of which doctor says that no epoch
            reads them, and the names and epochs of such rows: those of a source that was left no skip gives back.
        :raises Violation: a row that it has passed by, or has read at two barriers.
        """
        for job in sorted(self.readers):
            read = {*self.files_of(job, bounds), *told}
            self._check_ids(job, bounds, rows)
            for steps in self._runs(job):
                for name in names:
                    self._check_spans(job, name, steps, bounds, rows=rows, told=told)
                    self._check_skipped(job, name, steps, bounds, read)

    def _steps(self, job: str) -> list[_Step]:
        known = sorted(
            (epoch for name, epoch in self._committed if name == job), key=lambda epoch: epoch.start
        )
        return [_Step(epoch, self._committed[job, epoch]) for epoch in known]

    def _runs(self, job: str) -> Iterator[list[_Step]]:
        """The epochs of *job* that follow each other without a hole."""
        run: list[_Step] = []
        for step in self._steps(job):
            if run and run[-1].epoch.end != step.epoch.start:
                yield run
                run = []
            run.append(step)
        yield run

    def _check_ids(self, job: str, bounds: Bounds, rows: Rows) -> None:
        """Look at the ids that *job* has read by one name: it has read none of them by another."""
        read: defaultdict[str, set[int]] = defaultdict(set)
        for step in self._steps(job):
            for name, revision in step.read.items():
                found = bounds(name, step.epoch, revision)
                if found is not None and found.span is not None and not found.span.is_empty:
                    read[name] |= set(rows(found.span))
        for name, other in combinations(sorted(read), 2):
            twice = sorted(read[name] & read[other])
            expect(not twice, "I11", f"{job} has read {twice} as {name} and as {other}")

    def _check_spans(
        self, job: str, name: str, steps: list[_Step], bounds: Bounds, *, rows: Rows, told: Collection[str]
    ) -> None:
        edge: int | None = None
        knows_edge, left = False, False
        for step in steps:
            if step.read and name not in step.read:
                continue
            found = bounds(name, step.epoch, step.read.get(name, 0))
            span = None if found is None else found.span
            if span is None:  # of a skipped epoch nothing need be recorded
                left |= self.is_excused(job, step.epoch)
                continue
            if not step.read:
                left |= self.is_excused(job, step.epoch) or f"{name} {step.epoch}" in told
                edge, knows_edge = (edge if knows_edge else span.low), True
                continue
            where = f"{job} {step.epoch} has read {span} of {name}, what it has read before ends at {edge}"
            if knows_edge and span.low != edge:
                expect((span.low or 0) > (edge or 0), "I11", f"{where}: rows are read twice")
                lost = rows(Span(low=edge, high=span.low))
                expect(left or not lost, "I11", f"{where}: no epoch reads {lost}")
            edge, knows_edge, left = span.high, True, False

    def _check_skipped(
        self, job: str, name: str, steps: list[_Step], bounds: Bounds, read: Collection[str]
    ) -> None:
        for step in steps:
            if not step.read and not self.is_excused(job, step.epoch) and not self._standing[step.epoch]:
                found = bounds(name, step.epoch, 0)
                uris = [] if found is None else [file.uri for file in found.files if file.uri not in read]
                late = [uri for uri in uris if not self.is_own(uri, step.epoch)]
                expect(not late, "I11", f"{job} has skipped {step.epoch}: no epoch reads {late}")
