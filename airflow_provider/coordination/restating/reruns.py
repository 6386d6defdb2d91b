"""Runs that ask for committed epochs again which others have read: each DAG has a restatement for them (R28).

Airflow tells a task neither which backfill it belongs to nor whether a user has cleared it, and a run of a backfill
stays one for ever. So the DAG is what its cleared tasks, the runs of its backfill and others share. See
docs/decisions/rerun.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from shlex import quote
from typing import NoReturn

from airflow_provider.coordination.attempts.fill import fills_of, keys_of_fill
from airflow_provider.coordination.attempts.refusals import refuse_read
from airflow_provider.coordination.attempts.rerun import committed_before
from airflow_provider.coordination.commits.catch_up import behind_of
from airflow_provider.coordination.commits.open_restatements import open_restatements
from airflow_provider.coordination.commits.sealed import refuse_sealed
from airflow_provider.coordination.context import Context
from airflow_provider.coordination.restating.opening import (
    LIFETIME,
    claim_keys,
    store_opened,
    store_replaced,
    told,
)
from airflow_provider.coordination.restating.plan import plan_of, replanned
from airflow_provider.coordination.restating.refusals import refuse_blank
from airflow_provider.domain.admission import asks_anew
from airflow_provider.domain.behind import is_behind
from airflow_provider.domain.errors import Conflict, DependentReaders, TopologyError
from airflow_provider.domain.identifiers import RestatementId, restatement_id
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.records import Stamped, fence_of, job_key, table_key, topology_key
from airflow_provider.domain.registration import declared, serves_once
from airflow_provider.domain.restatement import (
    RestatementRecord,
    lacking_tables,
    of_older_version,
    unique_name,
)
from airflow_provider.domain.topology import Job
from airflow_provider.stores.base import Exists, Reading, unchanged
from airflow_provider.stores.declarations import fingerprint

_Known = tuple[RestatementId, Stamped[RestatementRecord]]


def of_rerun(
    context: Context, job: Job, epochs: Sequence[Interval], owner: Owner, *, reason: str
) -> RestatementId | None:
    """Take those of *epochs* that the run *owner* computes again into the restatement of its DAG; open it if need be.

    If committed epochs have read one of them, all of them are taken in, as one request, with all that has read them.
    Epochs that are not committed, that the job keeps, or that a retry finds committed are not, and neither is a member
    of another open restatement.

    :param reason: why the run asks for them; kept with a restatement that it opens.
    :return: the restatement, which a repetition finds; None, and nothing is written, where the run needs none.
    :raises TopologyError: they cannot be computed again together; the error lists the obstacles. Or an older version of
        the DAG asks for them.
    """
    refuse_blank(reason=reason)
    rerun = _Rerun(context, job, tuple(epochs), owner, reason.strip())
    return context.retry(rerun.run, Conflict.of_others(f"domain {job.domain!r}", "changing it"))


@dataclass(frozen=True, slots=True)
class _Rerun:
    """A run that asks for epochs; ``run`` may be repeated with the same answer."""

    context: Context
    job: Job
    epochs: tuple[Interval, ...]
    owner: Owner
    reason: str

    def run(self) -> RestatementId | None:
        store, domain = self.context.store, self.job.domain
        fences = (fence_of(self.job.epoch(epoch)) for epoch in self.epochs)
        own = job_key(domain, self.job.name)
        keys = (*claim_keys(domain), own, *keys_of_fill(self.job), *fences)
        reading = store.read(domain, [*dict.fromkeys(keys)])
        if reading.get(topology_key(domain)) is None:
            return None
        again = [epoch for epoch in self.epochs if self._asks_anew(reading, epoch)]
        if not again:
            return None
        # The barrier of a group computes no committed epoch.
        known = [entry for entry in open_restatements(store, domain) if not entry[1].record.is_group]
        mine = next((entry for entry in known if entry[1].record.rerun_of == self.owner.dag_id), None)
        records = [stamped.record for _, stamped in known]
        new = [epoch for epoch in again if not any(record.has(self.job.name, epoch) for record in records)]
        if any(self._is_read(reading, epoch) for epoch in new):
            return self._take_in(reading, mine, new)
        # An earlier call, with a lost reply, or another run of the DAG may have taken them in.
        is_member = mine is not None and any(mine[1].record.has(self.job.name, epoch) for epoch in again)
        return mine[0] if mine is not None and is_member else None

    def _take_in(self, reading: Reading, mine: _Known | None, new: Sequence[Interval]) -> RestatementId:
        self._refuse_older(reading, new[0])
        # A try of this run may have committed them since: then readers have read what it has committed.
        decided = [unchanged(reading, fence_of(self.job.epoch(epoch))) for epoch in new]
        required = [requirement for requirement in decided if isinstance(requirement, Exists)]
        if mine is None:
            return self._open(reading, new, required)
        self._extend(reading, *mine, new, required)
        return mine[0]

    def _refuse_older(self, reading: Reading, epoch: Interval) -> None:
        """Refuse to take in what the run cannot compute: the restatement would hold it in vain.

        :raises TopologyError: the job was declared otherwise since.
        """
        current = reading.get(job_key(self.job.domain, self.job.name))
        if current is not None and serves_once(declared(self.job, current.record, fingerprint(self.job))):
            raise of_older_version(self.job.name, epoch, "a restatement")

    def _asks_anew(self, reading: Reading, epoch: Interval) -> bool:
        stamped = reading.get(fence_of(self.job.epoch(epoch)))
        if stamped is None or stamped.record.interval != epoch:
            return False
        own = {table.name: reading.get(table_key(self.job.domain, table.name)) for table in self.job.outputs}
        return (
            asks_anew(
                self.job.on_rerun,
                stamped.record,
                self.owner,
                fills=bool(fills_of(reading, self.job, stamped.record, epoch)),
                behind=is_behind(behind_of(reading, self.job.domain), self.job.name, epoch),
            )
            # A restatement computes an epoch whole, or not at all: begin says what is to be done first.
            and not lacking_tables(own, epoch)
            and not committed_before(self.context.store, self.job, stamped.record, self.owner)
        )

    def _is_read(self, reading: Reading, epoch: Interval) -> bool:
        """Return True if committed epochs have read what a commit of *epoch* would change."""
        domain = self.job.domain
        own = {table.name: reading.of(table_key(domain, table.name)).record for table in self.job.outputs}
        try:
            refuse_read(self.context.store, domain, epoch, own, self.context.defaults)
        except DependentReaders:
            return True
        return False

    def _open(self, reading: Reading, again: Sequence[Interval], required: Sequence[Exists]) -> RestatementId:
        store, domain = self.context.store, self.job.domain
        planned = plan_of(store, domain, [(self.job.name, epoch) for epoch in again])
        if planned.obstacles:
            self._refuse(again, planned.obstacles)
        # A name that ends at random is never that of a restatement which has ended.
        unique = f"{self.context.random.getrandbits(16):04x}"
        name = restatement_id(unique_name(self.owner.dag_id, again[0].start, unique))
        record = RestatementRecord(
            reason=self.reason,
            by=f"run {self.owner.run_id} of DAG {self.owner.dag_id}",
            asked=planned.asked,
            members=planned.members,
            incarnation=reading.head.incarnation,
            deadline=reading.now + LIFETIME,
            rerun_of=self.owner.dag_id,
        )
        store_opened(self.context, domain, reading, name, record, requires=required)
        return name

    def _extend(
        self,
        reading: Reading,
        name: RestatementId,
        stamped: Stamped[RestatementRecord],
        again: Sequence[Interval],
        required: Sequence[Exists],
    ) -> None:
        store, domain, record = self.context.store, self.job.domain, stamped.record
        refuse_sealed(domain, reading.get(topology_key(domain)))
        joining = [(self.job.name, epoch) for epoch in again]
        planned = replanned(store, domain, name, record, joining=joining)
        if planned.obstacles:
            self._refuse(again, planned.obstacles, name)
        grown = replace(
            record,
            asked=record.asking(self.job.name, again),
            members=planned.members,
            deadline=reading.now + LIFETIME,
        )
        store_replaced(store, domain, stamped, grown, before=reading, requires=required)

    def _refuse(
        self, again: Sequence[Interval], obstacles: Sequence[str], name: RestatementId | None = None
    ) -> NoReturn:
        what = f"{self.job.name} {again[0]}" + (f" and {len(again) - 1} more epochs" if again[1:] else "")
        ends = ""
        if name is not None:
            status = f"`airflow epochs restate status {quote(name)}`"
            ends = f"publish or abandon restatement {name!r} of this DAG ({status}), or "
        raise TopologyError(
            f"{what}: committed epochs have read it, so that it is computed again within a restatement, which "
            f"{'cannot be opened' if name is None else f'{name!r} cannot be extended by it'}: {told(obstacles)}.",
            next_step=f"{ends}do what each of these says; then clear this task again.",
            job=self.job.name,
            interval=again[0],
        )
