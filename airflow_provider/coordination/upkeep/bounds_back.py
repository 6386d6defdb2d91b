"""Bounds of sources that only an abandoned restatement has read: what its epochs stand on becomes the newest (I11).

Without that no job could begin at these barriers: the newest revision would be another one than committed epochs have
read, for good. An epoch that `bind` left behind is to be computed from what was bound: that becomes the newest.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from airflow_provider.coordination.attempts.bounds import Bounding, Chosen
from airflow_provider.coordination.attempts.bounds_provider import Proposed
from airflow_provider.coordination.commits.catch_up import behind_of
from airflow_provider.coordination.commits.source_dependents import (
    committed_source,
    same_bounds,
    source_dependents,
)
from airflow_provider.coordination.context import Context
from airflow_provider.domain.behind import revision_bound
from airflow_provider.domain.declaration import JobDeclaration
from airflow_provider.domain.errors import Conflict
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import fence_of, topology_key
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.source_bounds import Source, SourceRecord
from airflow_provider.stores.base import Put, SameStore, Transaction, unchanged


def bring_bounds_back(context: Context, job: JobRecord, intervals: Iterable[Interval], why: str) -> None:
    """Record again the bounds that the committed *intervals* of *job* have read, where no commit reads newer ones.

    Where a source was bound anew since, these are the bounds that were bound: later barriers may begin at their end.

    :param why: kept with the bounds.
    """
    lost = Conflict.of_others(f"sources of {job.name}", "changing their bounds", job=job.name)
    for interval in intervals:
        for source in job.sources:
            context.retry(_BringingBack(context, job, interval, source, why).run, lost)


class _BringingBack:
    """One request for one source at one barrier; ``run`` may be repeated."""

    def __init__(
        self, context: Context, job: JobRecord, interval: Interval, source: Source, why: str
    ) -> None:
        self.context, self.job, self.interval, self.source, self.why = context, job, interval, source, why

    def run(self) -> None:
        """:raises RequirementFailed: another request was faster: decide again."""
        store, source = self.context.store, self.source
        job = JobDeclaration.of(self.job).job()
        bounding = Bounding(
            store=store, job=job, interval=self.interval, sources=(source,), provider=Proposed({})
        )
        fence = fence_of(job.epoch(self.interval))
        reading = store.read(job.domain, [topology_key(job.domain), fence, *bounding.keys])
        epoch = reading.get(fence)
        recorded = bounding.recorded(reading, source)
        read = committed_source(None if epoch is None else epoch.record, source.name)
        if read:
            read = (
                revision_bound(behind_of(reading, job.domain), job.name, self.interval, source.name) or read
            )
        newest = max(recorded, default=0)
        if not read or newest == read or read not in recorded:
            return
        before, current = recorded[read].whole, recorded[newest].whole
        if before.same_as(current):
            return
        readers = source_dependents(
            store, job.domain, source.name, self.interval, same_bounds(recorded, current)
        )
        if readers.stand:
            return
        bounds = replace(before, revision=newest + 1)
        record = SourceRecord.of(
            bounds, job.name, self.interval, reason=self.why, by="restatement", packs=bounding.packs
        )
        bounded = bounding.together([Chosen(source=source, bounds=bounds, record=record, readers=readers)])
        required = [unchanged(reading, key) for key in (fence, *bounded.required)]
        store.transact(
            Transaction(
                domain=job.domain,
                store=SameStore(reading.head.incarnation),
                requires=tuple(dict.fromkeys([*required, *bounded.readers])),
                updates=tuple(Put(key, found) for key, found in bounded.updates.items()),
            )
        )
