"""Binding a root anew: an operator decides that what its source has now is what a barrier reads (I11, R5).

Whoever has committed what it computed from the earlier revision stands on that until its task is cleared; `doctor`
names those epochs. All that begins after it reads the new revision, and no attempt publishes what it has read before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider.coordination.bounding import Bounding, RootSource
from airflow_provider.coordination.dependents import Dependent
from airflow_provider.coordination.root_readers import root_readers
from airflow_provider.coordination.settling import decided
from airflow_provider.coordination.skipping import worded
from airflow_provider.domain.errors import Conflict, InvalidInput, UnknownName
from airflow_provider.domain.identifiers import DomainName, JobName, domain_name, table_name
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import Kind
from airflow_provider.domain.registration import JobRecord, declaration
from airflow_provider.domain.roots import RootBounds
from airflow_provider.stores.base import MetadataReader, Put, SameStore, Transaction, pages, unchanged

if TYPE_CHECKING:
    from airflow_provider.coordination.coordinator import Coordinator


@dataclass(frozen=True, kw_only=True, slots=True)
class Bound:
    """What binding came to.

    :param bounds: what the barrier reads from now on. :param is_new: they differ from what was recorded.
    :param behind: committed epochs that stand on the revision before: clear their tasks.
    """

    bounds: RootBounds
    is_new: bool
    behind: tuple[Dependent, ...]


def declaring(reader: MetadataReader, domain: str, root: str) -> JobRecord:
    """Return a job that declares *root*.

    :raises UnknownName: no job of the domain does. :raises InvalidInput: no name that a root can have.
    """
    name = table_name(root)
    jobs = [stamped.record for stamped in pages(reader, domain_name(domain), Kind.JOB, "")]
    found = [job for job in jobs if any(declared.name == name for declared in job.roots)]
    if not found:
        known = sorted({one.name for job in jobs for one in job.roots})
        raise UnknownName(
            f"no job of domain {domain!r} declares a root {root!r}; the domain has {', '.join(known) or 'none'}.",
            next_step="see `airflow epochs status` for the jobs.",
            root=root,
        )
    record: JobRecord = min(found, key=lambda job: bool(job.retired))
    return record


def bind(
    coordinator: Coordinator,
    domain: str,
    root: str,
    interval: Interval,
    source: RootSource,
    *,
    reason: str,
    by: str,
) -> Bound:
    """Record what the source of *root* has now as the next revision of its bounds for *interval*.

    :param reason: why; kept with the bounds, and in the log of the epochs that read them. :param by: who says so.
    :raises UnknownName: no job declares such a root. :raises InvalidInput: nothing is recorded for the interval.
    :raises NotReady: the source is not complete.
    """
    worded(reason=reason, by=by)
    request = _Bind(coordinator, domain_name(domain), root, interval, source, reason.strip(), by.strip())
    return decided(
        request.run,
        Conflict(f"root {root!r}: others kept changing its bounds.", next_step="try again.", root=root),
        clock=coordinator.clock,
        random=coordinator.random,
        patience=coordinator.defaults.unknown_outcome_patience,
    )


@dataclass(frozen=True, slots=True)
class _Bind:
    coordinator: Coordinator
    domain: DomainName
    root: str
    interval: Interval
    source: RootSource
    reason: str
    by: str

    def run(self) -> Bound:
        """:raises RequirementFailed: somebody was faster: decide again."""
        store = self.coordinator.store
        job = declaring(store, self.domain, self.root)
        root = next(one for one in job.roots if one.name == self.root)
        bounding = Bounding(
            store=store,
            job=declaration(job),
            interval=self.interval,
            roots=(root,),
            source=self.source,
        )
        reading = store.read(self.domain, bounding.keys)
        known = bounding.recorded(reading, root)
        if not known:
            raise InvalidInput(
                field="interval",
                value=str(self.interval),
                expected=f"an epoch for which bounds of root {self.root!r} are recorded",
                next_step="run the task of the job: its begin records them.",
            )
        newest = known[max(known)]
        if newest.reason == self.reason and newest.by == self.by:
            return self._answer(newest.whole, is_new=True)  # the reply of this request was lost
        found = bounding.anew(reading, root, self.reason, self.by)
        if found.bounds.same_as(newest.whole) or found.record is None:
            return self._answer(newest.whole, is_new=False)
        bounded = bounding.together([found])
        store.transact(
            Transaction(
                domain=self.domain,
                store=SameStore(reading.head.incarnation),
                requires=tuple(unchanged(reading, key) for key in bounded.required),
                updates=tuple(Put(key, record) for key, record in bounded.updates.items()),
            )
        )
        return self._answer(found.bounds, is_new=True)

    def _answer(self, bounds: RootBounds, *, is_new: bool) -> Bound:
        behind: list[Dependent] = []
        for revision in range(1, bounds.revision):
            readers = root_readers(
                self.coordinator.store, self.domain, self.root, self.interval, revision, but=JobName("")
            )
            behind += readers.committed
        return Bound(bounds=bounds, is_new=is_new, behind=tuple(behind))
