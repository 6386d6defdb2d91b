"""Impact of a correction: the plan of a restatement, and the epochs whose readers ignore it; changes nothing (R28)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from airflow_provider.coordination.restating.plan import Plan, plan
from airflow_provider.coordination.retrying_reader import retrying_reader
from airflow_provider.domain.epoch import EpochRecord
from airflow_provider.domain.identifiers import DomainName, JobName, TableName, domain_name
from airflow_provider.domain.interval import Interval, time_key
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.restatement import HeldEpochs, JobEpochs, epochs_of
from airflow_provider.domain.schedule import ExplicitInterval
from airflow_provider.domain.topology import OnUpstreamRevision
from airflow_provider.domain.watermark import merged
from airflow_provider.stores.base import MetadataReader, pages

Spans = Mapping[TableName, Sequence[Interval]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Impact:
    """Consequences of computing epochs again.

    :param plan: of a restatement of them. :param ignored: committed epochs that have read what changes by ``ignore``
        edges, and by no other: they stay, and their rows carry a label.
    """

    plan: Plan
    ignored: tuple[HeldEpochs, ...]

    @property
    def followers(self) -> tuple[JobEpochs, ...]:
        """Members that were not asked for."""
        asked = set(epochs_of(self.plan.asked))
        left = (
            JobEpochs(
                job=found.job,
                intervals=tuple(each for each in found.intervals if (found.job, each) not in asked),
            )
            for found in self.plan.members
        )
        return tuple(found for found in left if found.intervals)


def impact(reader: MetadataReader, domain: str, names: Sequence[str], interval: ExplicitInterval) -> Impact:
    """Return what would follow if the epochs of *interval* of the jobs or tables *names* were computed again.

    :raises UnknownName: no job and no table of that name.
    :raises InvalidInput: no name, an interval that cannot be read, or without a committed epoch.
    :raises StoreUnavailable: the store did not answer for longer than readers wait (``read_timeout``).
    """
    reader, where = retrying_reader(reader), domain_name(domain)
    planned = plan(reader, where, names, interval)
    jobs = [stamped.record for stamped in pages(reader, where, JobRecord)]
    others = {*epochs_of(planned.members), *epochs_of(planned.held)}
    spans = _spans(jobs, planned.members)
    found = (_ignoring(reader, where, job, spans, others) for job in jobs)
    return Impact(plan=planned, ignored=tuple(epochs for several in found for epochs in several))


def _spans(jobs: Sequence[JobRecord], members: Sequence[JobEpochs]) -> Spans:
    """Return the time that changes in each table."""
    outputs = {job.name: job.all_outputs for job in jobs}
    found: dict[TableName, tuple[Interval, ...]] = {}
    for epochs in members:
        for table in outputs[epochs.job]:
            found[table] = merged((*found.get(table, ()), *epochs.intervals))
    return found


def _ignoring(
    reader: MetadataReader,
    domain: DomainName,
    job: JobRecord,
    spans: Spans,
    others: set[tuple[JobName, Interval]],
) -> Iterator[HeldEpochs]:
    """Yield the committed epochs of *job* that have read one of *spans* by ``ignore`` edges, by the tables read."""
    ignores = OnUpstreamRevision.IGNORE
    tables = {edge.table for edge in job.all_edges if edge.on_upstream_revision is ignores} & spans.keys()
    if not tables:
        return
    start = min(spans[table][0].start for table in tables)
    found: dict[tuple[TableName, ...], list[Interval]] = {}
    for stamped in pages(
        reader, domain, EpochRecord, job.name, start=time_key(job.cadence.last_before(start))
    ):
        committed, interval = stamped.record.committed, stamped.record.interval
        if committed is None or (job.name, interval) in others:
            continue
        read = {
            each.table
            for each in committed.inputs
            if each.on_upstream_revision is ignores
            and any(span.meets(each.low, each.high) for span in spans.get(each.table, ()))
        }
        if read:
            found.setdefault(tuple(sorted(read)), []).append(interval)
    for names, intervals in sorted(found.items()):
        yield HeldEpochs(job=job.name, tables=names, intervals=tuple(intervals))
