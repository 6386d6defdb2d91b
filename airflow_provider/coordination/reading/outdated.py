"""Outdated rows, the label of cuts and of ``explain`` (R18): computed from a state that an ``ignore`` edge, or a
released ``hold`` edge, did not follow, or from a source before it was bound anew, or of an earlier revision than those
of other tables.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from airflow_provider.domain.cut import State
from airflow_provider.domain.epoch import EpochRecord
from airflow_provider.domain.identifiers import DomainName, JobName, TableName
from airflow_provider.domain.interval import Interval, time_key
from airflow_provider.domain.outdated import (
    Kept,
    Outdated,
    is_copy,
    joined,
    known_rewrites,
    let_through,
    missed_rewrite,
    outdated_by_source,
    outdated_by_staying,
    spread,
    staying_edges,
    upstream_jobs,
)
from airflow_provider.domain.readers import last_dependent_end
from airflow_provider.domain.records import Key, Stamped, epoch_key, rewrite_log_key, table_key, topology_key
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.table_kind import TableKind
from airflow_provider.domain.topology import Edge
from airflow_provider.domain.topology_record import TopologyRecord
from airflow_provider.domain.version import Rewrite, TableRecord
from airflow_provider.stores.base import FIRST_CHARACTER, Head, MetadataReader, Reading, pages, scan

_PAGE = 100
_LARGEST_PAGE = 1600
_MOST_COMMITS = 200
"""More of them are not looked through: then all epochs are."""

Epochs = tuple[datetime, datetime, int]
"""Start of the first and end of the last outdated epoch, and the newest rewrite that they have not read."""


def outdated_tables(reader: MetadataReader, domain: DomainName) -> tuple[Outdated, ...]:
    """Return the labels that the newest states of the domain's tables carry because edges did not follow an input."""
    key = topology_key(domain)
    reading, states = reader.read(domain, [key]), dict[TableName, State]()
    csn = reading.head.csn
    for stamped in pages(reader, domain, TableRecord):
        name, record = TableName(stamped.key.item), stamped.record
        ends = [island.end for island in record.progress.islands]
        if ends:
            barrier = max(ends)
            states[name] = State(table=name, kind=record.kind, barrier=barrier, low=None, csn=csn, ref=None)
    found = OutdatedRows(reader).of(domain, reading.get(key), states, csn)
    return tuple(label for label in found if not label.revision and not label.job)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Known:
    """Answer about the epochs of a job that have missed *rewrites*.

    :param versions: of the job's tables. :param head: every epoch was looked at as of this commit or later.
    """

    rewrites: tuple[Rewrite, ...]
    versions: tuple[int | None, ...]
    head: Head
    found: Epochs | None

    def grows(self, rewrites: tuple[Rewrite, ...], head: Head) -> bool:
        """Return True if only epochs that were committed since may have missed one of *rewrites*.

        A restored store has other commits of the same numbers.
        """
        is_later = head.incarnation == self.head.incarnation and head.csn >= self.head.csn
        return self.found is None and self.rewrites == rewrites and is_later


class OutdatedRows:
    """Rows computed from an earlier state of an input, as read by *reader*.

    A domain without an ``ignore`` or released ``hold`` edge, in which no rows stay behind others, costs one read of
    its jobs for each version of its topology.
    """

    def __init__(self, reader: MetadataReader) -> None:
        self.reader = reader
        self._jobs: dict[DomainName, tuple[int, list[JobRecord]]] = {}
        self._epochs: dict[tuple[DomainName, JobName, Edge], _Known] = {}

    def of(
        self,
        domain: DomainName,
        topology: Stamped[TopologyRecord] | None,
        states: Mapping[TableName, State],
        csn: int,
    ) -> tuple[Outdated, ...]:
        """Return the outdated rows of *states*, sorted; *csn* is that of the cut."""
        jobs = [] if topology is None else self._known_jobs(domain, topology.version)
        behind = [] if topology is None else outdated_by_source(topology.record.behind, csn)
        stayed = [] if topology is None else outdated_by_staying(topology.record.stayed, csn)
        edges = staying_edges(jobs, () if topology is None else topology.record.released)
        if edges or stayed:
            upstream = upstream_jobs(jobs, states)
            edges = [(job, edge) for job, edge in edges if job.name in upstream]
            stayed = [label for label in stayed if label.job in upstream]
        if not edges and not behind and not stayed:
            return ()
        found = [*self._found(domain, edges, csn), *stayed]
        kinds = {table.name: table.kind for job in jobs for table in job.outputs}
        kinds.update(self._left_kinds(domain, jobs, kinds))
        found += let_through(behind, edges, kinds)
        read = [
            label
            for label in (*behind, *spread(found, jobs, kinds, self._kept(domain, jobs)))
            if label.table in states
            and label.is_read_at(states[label.table].kind, states[label.table].barrier)
        ]
        return joined(read)

    def _left_kinds(
        self, domain: DomainName, jobs: Sequence[JobRecord], declared: Collection[TableName]
    ) -> dict[TableName, TableKind]:
        """Return the kinds of tables that no job declares now: their copies and readers keep labels, too."""
        left = {table for job in jobs for table in job.all_outputs if table not in declared}
        keys = [table_key(domain, table) for table in sorted(left)]
        found = self.reader.read(domain, keys).records.values() if keys else ()
        return {TableName(stamped.key.item): stamped.record.kind for stamped in found}

    def _kept(self, domain: DomainName, jobs: Sequence[JobRecord]) -> Kept:
        """Return a function that follows the copies of a table's skipped epochs, from the end of the computed one."""

        def kept(table: TableName, end: datetime) -> datetime:
            writers = [job.name for job in jobs if table in job.all_outputs]
            while True:
                reading = self.reader.read(domain, [epoch_key(domain, job, end) for job in writers])
                epochs = [record.record for record in reading.records.values()]
                copy = next((epoch for epoch in epochs if is_copy(epoch, table)), None)
                if copy is None:
                    return end
                end = copy.interval.end

        return kept

    def _known_jobs(self, domain: DomainName, version: int) -> list[JobRecord]:
        known = self._jobs.get(domain)
        if known is None or known[0] != version:
            jobs = [stamped.record for stamped in pages(self.reader, domain, JobRecord)]
            known = self._jobs[domain] = (version, jobs)
        return known[1]

    def _found(self, domain: DomainName, edges: Sequence[tuple[JobRecord, Edge]], csn: int) -> list[Outdated]:
        """Return the rows that the jobs of *edges* themselves have computed from earlier states."""
        keys: list[Key[Any]] = []
        for job, edge in edges:
            keys += [
                rewrite_log_key(domain, edge.table),
                *(table_key(domain, table) for table in job.all_outputs),
            ]
        reading = self.reader.read(domain, list(dict.fromkeys(keys)))
        found = []
        for job, edge in edges:
            epochs = self._outdated_epochs(domain, job, edge, reading, csn)
            if epochs is not None:
                start, end, unknown = epochs
                found += [
                    Outdated(table=table, source=edge.table, csn=unknown, start=start, end=end)
                    for table in job.all_outputs
                ]
        return found

    def _outdated_epochs(
        self, domain: DomainName, job: JobRecord, edge: Edge, reading: Reading, csn: int
    ) -> Epochs | None:
        """Return the epochs of *job* that read *edge* before its rewrite; cached until a rewrite or a commit."""
        log = reading.get(rewrite_log_key(domain, edge.table))
        rewrites = () if log is None else tuple(known_rewrites(log, csn))
        outputs = [reading.get(table_key(domain, table)) for table in job.all_outputs]
        versions = tuple(None if stamped is None else stamped.version for stamped in outputs)
        place = (domain, job.name, edge)  # edges of one table reach different epochs
        known = self._epochs.get(place)
        if known is None or (known.rewrites, known.versions) != (rewrites, versions):
            grows = known is not None and known.grows(rewrites, reading.head)
            since = self._committed_since(domain, job.name, known.head.csn) if known and grows else None
            found = (
                self._search(domain, job, edge, rewrites) if since is None else _hull(since, edge, rewrites)
            )
            known = _Known(rewrites=rewrites, versions=versions, head=reading.head, found=found)
            self._epochs[place] = known
        return known.found

    def _committed_since(self, domain: DomainName, job: JobName, csn: int) -> list[EpochRecord] | None:
        """Return the epochs of *job* that were committed after *csn*; None after many commits."""
        commits = self.reader.changes(domain, csn, limit=_MOST_COMMITS + 1)
        if len(commits) > _MOST_COMMITS:
            return None
        members = (member for commit in commits for member in commit.record.members if member.job == job)
        keys = list(dict.fromkeys(epoch_key(domain, job, member.interval.start) for member in members))
        return [stamped.record for stamped in self.reader.read(domain, keys).records.values()] if keys else []

    def _search(
        self, domain: DomainName, job: JobRecord, edge: Edge, rewrites: Sequence[Rewrite]
    ) -> Epochs | None:
        if not rewrites:
            return None
        low = min(rewrite.low for rewrite in rewrites)
        ends = [last_dependent_end(edge, Interval(rewrite.low, rewrite.high)) for rewrite in rewrites]
        last = None if None in ends else max(end for end in ends if end is not None)
        between = time_key(job.cadence.last_before(low)), None if last is None else time_key(last)

        def missed(*, reverse: bool) -> Iterator[Epochs]:
            for epoch in self._scanned(domain, job.name, between, reverse=reverse):
                rewrite = missed_rewrite(epoch, edge.table, rewrites)
                if rewrite is not None:
                    yield epoch.interval.start, epoch.interval.end, rewrite.csn

        first = next(missed(reverse=False), None)
        final = None if first is None else next(missed(reverse=True), None)
        if first is None or final is None:
            return None
        unknown, newest = max(first[2], final[2]), max(rewrite.csn for rewrite in rewrites)
        if unknown < newest:  # an epoch between the two may have missed a later rewrite than both
            for _, end, csn in missed(reverse=False):
                unknown = max(unknown, csn)
                if unknown == newest or end >= final[1]:
                    break
        return first[0], final[1], unknown

    def _scanned(
        self, domain: DomainName, job: JobName, between: tuple[str, str | None], *, reverse: bool
    ) -> Iterator[EpochRecord]:
        """Yield the epochs of *job* between two keys, from the front or from the back."""
        (start, end), limit = between, _PAGE
        while True:
            page = scan(
                self.reader, domain, EpochRecord, job, start=start, end=end, limit=limit, reverse=reverse
            )
            yield from (stamped.record for stamped in page)
            if len(page) < limit:
                return
            start, end = (start, page[-1].key.item) if reverse else (page[-1].key.item + FIRST_CHARACTER, end)
            # As a rule the first page has the answer. Where no epoch missed a rewrite, all of them are read.
            limit = min(2 * limit, _LARGEST_PAGE)


def _hull(epochs: Iterable[EpochRecord], edge: Edge, rewrites: Sequence[Rewrite]) -> Epochs | None:
    """Return the time of those of *epochs* that have missed one of *rewrites*, and the newest of these."""
    found = [
        (epoch.interval, rewrite.csn)
        for epoch in epochs
        if (rewrite := missed_rewrite(epoch, edge.table, rewrites)) is not None
    ]
    if not found:
        return None
    return (
        min(interval.start for interval, _ in found),
        max(interval.end for interval, _ in found),
        max(csn for _, csn in found),
    )
