"""Binding a source anew: an operator decides that a barrier reads the present data of its source (I11, R5).

Attempts that begin afterwards read the new revision, and no attempt publishes output of an older one. Epochs that have
committed output of an earlier revision are *behind*: until they are computed again nothing reads them beside those
that have read the newer one (R18), and cuts of them carry a label.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from airflow_provider.coordination.attempts.bounds import Bounding
from airflow_provider.coordination.attempts.bounds_provider import BoundsProvider
from airflow_provider.coordination.commits.sealed import refuse_sealed
from airflow_provider.coordination.context import Context
from airflow_provider.coordination.upkeep.leave_behind import LeavingBehind
from airflow_provider.coordination.upkeep.skip import require_text
from airflow_provider.domain.declaration import JobDeclaration
from airflow_provider.domain.dependent import Dependent
from airflow_provider.domain.errors import Conflict, InvalidInput, UnknownName
from airflow_provider.domain.identifiers import DomainName, domain_name, table_name
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import topology_key
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.source_bounds import SourceBounds, SourceRecord
from airflow_provider.stores.base import MetadataReader, Put, SameStore, Transaction, pages, unchanged


@dataclass(frozen=True, kw_only=True, slots=True)
class Bound:
    """Outcome of a binding.

    :param bounds: read at the barrier from now on. :param is_new: they differ from the recorded ones.
    :param behind: committed epochs that have read the revision before: clear their tasks.
    """

    bounds: SourceBounds
    is_new: bool
    behind: tuple[Dependent, ...]


def declaring(reader: MetadataReader, domain: str, source: str) -> JobRecord:
    """Return a job that declares *source*.

    :raises UnknownName: no job of the domain declares it. :raises InvalidInput: not a valid name of a source.
    """
    name = table_name(source)
    jobs = [stamped.record for stamped in pages(reader, domain_name(domain), JobRecord)]
    found = [job for job in jobs if any(declared.name == name for declared in job.sources)]
    if not found:
        known = sorted({declared.name for job in jobs for declared in job.sources})
        raise UnknownName(
            f"no job of domain {domain!r} declares a source {source!r}; the domain has {', '.join(known) or 'none'}.",
            next_step="see `airflow epochs status` for the jobs.",
            source=source,
        )
    return min(found, key=lambda job: bool(job.retired))


def bind(
    context: Context,
    domain: str,
    source: str,
    interval: Interval,
    provider: BoundsProvider,
    *,
    reason: str,
    by: str,
) -> Bound:
    """Record the present bounds of *source* as their next revision for *interval*.

    :param reason: why; kept with the bounds, and in the log of the epochs that read them. :param by: its author.
    :raises UnknownName: no job declares such a source. :raises InvalidInput: nothing is recorded for the interval.
    :raises NotReady: the source is not complete.
    :raises DependentReaders: an epoch that would be behind has committed readers: it could not be computed again.
    :raises TopologyError: likewise, since its job is retired, or no longer declares a table that has rows of it.
    :raises Unavailable: likewise, since retention has expired a state that it reads.
    :raises RecordFull: too many epochs are behind.
    """
    require_text(reason=reason, by=by)
    request = _Bind(context, domain_name(domain), source, interval, provider, reason.strip(), by.strip())
    return context.retry(
        request.run,
        Conflict.of_others(f"source {source!r}", "changing its bounds", source=source),
    )


@dataclass(frozen=True, slots=True)
class _Bind:
    """One request to bind; ``run`` may be repeated.

    :param recorded: records that it has tried to store; if one is found in the store, its reply was lost.
    """

    context: Context
    domain: DomainName
    source: str
    interval: Interval
    provider: BoundsProvider
    reason: str
    by: str
    recorded: list[SourceRecord] = field(default_factory=list)

    def run(self) -> Bound:
        """:raises RequirementFailed: another request was faster: decide again."""
        store = self.context.store
        job = declaring(store, self.domain, self.source)
        source = next(declared for declared in job.sources if declared.name == self.source)
        bounding = Bounding(
            store=store,
            job=JobDeclaration.of(job).job(),
            interval=self.interval,
            sources=(source,),
            provider=self.provider,
        )
        reading = store.read(self.domain, [topology_key(self.domain), *bounding.keys])
        topology = reading.of(topology_key(self.domain))
        refuse_sealed(self.domain, topology)
        known = bounding.recorded(reading, source)
        if not known:
            raise InvalidInput(
                field="interval",
                value=str(self.interval),
                expected=f"an epoch for which bounds of source {self.source!r} are recorded",
                next_step="run the task of the job: its begin records them.",
            )
        newest = known[max(known)]
        leaving = LeavingBehind(
            context=self.context,
            domain=self.domain,
            source=self.source,
            interval=self.interval,
            topology=topology,
        )
        if newest in self.recorded:
            return Bound(bounds=newest.whole, is_new=True, behind=leaving.of(known, newest.whole).epochs)
        found = bounding.anew(reading, source, self.reason, self.by)
        left = leaving.of(known, found.bounds)
        if found.record is None or (found.bounds.same_as(newest.whole) and not left.unknown):
            return Bound(bounds=newest.whole, is_new=False, behind=left.epochs)
        bounded = bounding.together([found])
        required, updates = leaving.changes(left)
        required = [*(unchanged(reading, key) for key in bounded.required), *required]
        self.recorded.append(found.record)
        store.transact(
            Transaction(
                domain=self.domain,
                store=SameStore(reading.head.incarnation),
                requires=tuple(dict.fromkeys(required)),
                updates=(*(Put(key, record) for key, record in bounded.updates.items()), *updates),
            )
        )
        return Bound(bounds=found.bounds, is_new=True, behind=left.epochs)
