"""Begin: an attempt with a token, a lock and inputs that are fixed before they are read (protocol section 5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from airflow_provider.coordination.altering import Alter
from airflow_provider.coordination.bounding import Bounded, Bounding, RootSource
from airflow_provider.coordination.dependents import refuse_dependents
from airflow_provider.coordination.recovery import follow, refuse_ahead
from airflow_provider.coordination.registering import Register
from airflow_provider.coordination.resolving import retention_of
from airflow_provider.coordination.resuming import attempt_of
from airflow_provider.coordination.root_readers import whole_roots
from airflow_provider.coordination.sealing import refuse_sealed
from airflow_provider.coordination.undoing import Undoing, abandoned
from airflow_provider.domain.beginning import (
    Beginning,
    adoptable,
    altered,
    check_interval,
    computes_first,
    decide,
    inheritable,
    next_revision,
    reads_of_skip,
    resolve_inputs,
    withdrawn,
)
from airflow_provider.domain.defaults import Defaults
from airflow_provider.domain.epoch import (
    AlreadyCommitted,
    Attempt,
    AttemptRecord,
    BarrierRecord,
    EpochRecord,
    EpochState,
    LockRecord,
    Owner,
    Provenance,
    change_set_id,
    committed_csn,
    completed,
    written_output,
)
from airflow_provider.domain.errors import Conflict, InvalidInput, NotReady, TopologyError, Unavailable
from airflow_provider.domain.identifiers import TableName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.publishing import invalidated
from airflow_provider.domain.records import (
    Key,
    Stamped,
    barrier_key,
    epoch_key,
    fence_key,
    job_key,
    lock_key,
    retention_key,
    table_key,
    topology_key,
)
from airflow_provider.domain.registration import JobRecord, declared, refuse_not_own, serves_once
from airflow_provider.domain.roots import RootBounds
from airflow_provider.domain.topology import Edge, EpochJob
from airflow_provider.domain.version import TableRecord, TableRef
from airflow_provider.stores.base import Put, Reading, RequirementFailed, SameStore, Transaction, unchanged

if TYPE_CHECKING:
    from airflow_provider.coordination.coordinator import Coordinator

_TRIES = 50
_MOST_PARTICIPANTS = 999_999
"""Numbers of participants are written with six digits in keys."""


def refuse_participants(number: object) -> None:
    """:raises InvalidInput: it is no number of participants."""
    if type(number) is not int or not 1 <= number <= _MOST_PARTICIPANTS:
        raise InvalidInput(
            field="participants", value=number, expected=f"a number from 1 to {_MOST_PARTICIPANTS}"
        )


def refuse_shared_ttl(ttl: object, defaults: Defaults) -> None:
    """:raises InvalidInput: participants cannot all be silent for so long; None is taken."""
    if ttl is not None and not (
        isinstance(ttl, timedelta) and defaults.lock_ttl <= ttl <= defaults.lease_longest
    ):
        raise InvalidInput(
            field="lock_ttl",
            value=ttl,
            expected=f"a timedelta from {defaults.lock_ttl} to {defaults.lease_longest}",
        )


@dataclass(frozen=True, slots=True)
class Begin:
    """One request to begin; ``run`` may be repeated with the same answer.

    :param skips: why the epoch is skipped: then none of the job's inputs is read, and what is committed stays.
    :param shared_ttl: how long participants in processes of their own may all be silent; None for others.
    """

    coordinator: Coordinator
    job: EpochJob
    interval: Interval
    owner: Owner
    roots: RootSource
    participants: int
    skips: str = ""
    shared_ttl: timedelta | None = None

    @property
    def _edges(self) -> tuple[Edge, ...]:
        return reads_of_skip(self.job.outputs) if self.skips else self.job.edges

    @property
    def _bounding(self) -> Bounding:
        roots = () if self.skips else self.job.roots
        return Bounding(
            store=self.coordinator.store, job=self.job, interval=self.interval, roots=roots, source=self.roots
        )

    def run(self) -> Attempt | AlreadyCommitted:
        if not isinstance(self.interval, Interval):
            raise InvalidInput(field="interval", value=self.interval, expected="an Interval(start, end)")
        refuse_participants(self.participants)
        refuse_shared_ttl(self.shared_ttl, self.coordinator.defaults)
        for _ in range(_TRIES):
            answer = self._try()
            if answer is not None:
                return answer
        raise Conflict(
            f"{self.job.name} {self.interval}: others kept changing the epoch, its lock or its roots.",
            next_step="try again.",
        )

    @property
    def _ttl(self) -> timedelta:
        return self.shared_ttl or self.coordinator.defaults.lock_ttl

    def _try(self) -> Attempt | AlreadyCommitted | None:
        reading = self._read()
        for table in follow(self.coordinator.formats, reading, self.job.outputs):
            refuse_ahead(self.coordinator.store, self.coordinator.formats, table)
        refuse_sealed(self.job.domain, reading.get(topology_key(self.job.domain)))
        job = self._registered(reading)
        if job is None:
            Register(self.coordinator.store, self.job).run()
            return None
        tolerance = self.coordinator.defaults.future_tolerance
        # An older declaration serves an epoch of its own only while that is one of the newer calendar, too (R7).
        for known in (job, reading.records[job_key(self.job.domain, self.job.name)].record):
            check_interval(known, self.interval, now=reading.now, tolerance=tolerance)
        stamped: Stamped[EpochRecord] | None = reading.get(self._epoch_key)
        epoch = stamped.record if stamped else None
        earlier = self._earlier_commit(epoch)
        if earlier is not None:
            return earlier
        decision = self._decided(reading, job, epoch)
        if decision is Beginning.COMMITTED and epoch is not None and epoch.committed is not None:
            return self._committed(epoch.committed.revision, committed_csn(stamped) if stamped else None)
        if decision is Beginning.SAME and stamped is not None and stamped.record.attempt is not None:
            record = stamped.record.attempt
            roots = whole_roots(self.coordinator.store, self.job.domain, self.interval, record.roots)
            attempt = self._attempt(record, reading, stamped.version, roots)
            self._undoing.of(stamped.record.attempt)
            return attempt
        return self._open(reading, job, stamped)

    @property
    def _undoing(self) -> Undoing:
        return Undoing(self.coordinator.formats, self.job, self.interval, self._log)

    def _decided(self, reading: Reading, job: JobRecord, epoch: EpochRecord | None) -> Beginning:
        if self.skips and epoch is not None and epoch.committed is not None:
            # It stays, whatever the job does with such epochs, and whoever computes it again.
            return Beginning.COMMITTED
        return decide(job, epoch, reading.get(self._lock_key), self.owner, reading.now)

    @property
    def _epoch_key(self) -> Key:
        return epoch_key(self.job.domain, self.job.name, self.interval.start)

    @property
    def _lock_key(self) -> Key:
        return lock_key(self.job.domain, self.job.name, self.interval.start)

    def _read(self) -> Reading:
        domain, edges = self.job.domain, self._edges
        return self.coordinator.store.read(
            domain,
            [
                topology_key(domain),
                retention_key(domain),
                job_key(domain, self.job.name),
                self._epoch_key,
                self._lock_key,
                *(table_key(domain, edge.table) for edge in edges),
                *(fence_key(domain, edge.table) for edge in edges),
                *(table_key(domain, table.name) for table in self.job.outputs),
                *self._bounding.keys,
            ],
        )

    def _registered(self, reading: Reading) -> JobRecord | None:
        current = reading.get(job_key(self.job.domain, self.job.name))
        record = declared(self.job, current.record if current else None)
        if current is not None and (record == current.record or serves_once(record)):
            return record
        return None

    def _open(self, reading: Reading, job: JobRecord, stamped: Stamped[EpochRecord] | None) -> Attempt | None:
        epoch = stamped.record if stamped else None
        self._refuse_retired(reading)
        revision = next_revision(epoch)
        if revision == 1:
            if not computes_first(self.job.name, self.interval, self._own(reading), reading.head.csn):
                return None
        else:
            refuse_dependents(
                self.coordinator.store,
                self.job.domain,
                [table.name for table in self.job.outputs],
                self.interval,
                self.coordinator.defaults,
            )
        before = None if self.skips else inheritable(epoch, job)
        inputs, fresh = self._inputs(reading, before)
        if inputs is None or Alter(self.coordinator, self.job, self.interval).run(reading):
            return None
        keeps = before is not None and not fresh and self._bounding.are_newest(before.roots)
        adopts = self._adopted(before, job) if before is not None and keeps else None
        bounded = self._bounding.bounded(reading, epoch, revision, adopts=adopts is not None)
        fresh = fresh or bounded.is_new
        token = (epoch.token if epoch else 0) + 1
        record = AttemptRecord(
            revision=revision,
            token=token,
            owner=self.owner,
            inputs=tuple(inputs),
            input_generation=(before.input_generation if before else 0) + (1 if fresh else 0),
            roots=tuple(map(self._bounding.in_attempt, bounded.bounds)),
            baseline=self._baseline(reading, before),
            job_revision=job.revision,
            participants=self.participants,
            shared=self.shared_ttl is not None,
            adopts=adopts,
            undoes=abandoned(epoch, self.interval, adopts, self.job.outputs),
            skips=self.skips,
        )
        if epoch is not None:
            self._undoing.finish(epoch)
        version = self._store(reading, stamped, record, bounded)
        if version is None:
            return None
        attempt = self._attempt(record, reading, version, bounded.bounds)
        self._undoing.of(record)
        return attempt

    def _inputs(self, reading: Reading, before: AttemptRecord | None) -> tuple[list[Provenance] | None, bool]:
        """The attempt's inputs and whether they were resolved anew; None when the head is to be read again."""
        domain = self.job.domain
        tables = {edge.table: reading.get(table_key(domain, edge.table)) for edge in self._edges}
        retention = retention_of(domain, reading)
        if before is not None:
            fences = {one.table: reading.records[fence_key(domain, one.table)] for one in before.inputs}
            over = invalidated(before.inputs, fences) or withdrawn(before.inputs, tables, retention)
            if not over and not altered(before.inputs, tables):
                return list(before.inputs), False
        found, missing, stale = resolve_inputs(self._edges, self.interval, tables, reading.head.csn)
        if stale:
            return None, True
        if missing:
            raise NotReady(
                f"{self.job.name} {self.interval} is not ready: "
                + "; ".join(str(one) for one in missing)
                + ".",
                next_step="wait for these inputs (EpochSensor), or see `airflow epochs explain`.",
                job=self.job.name,
                interval=self.interval,
                missing=tuple(missing),
            )
        self._refuse_withdrawn(withdrawn(found, tables, retention))
        return found, True

    def _refuse_withdrawn(self, gone: list[Provenance]) -> None:
        if gone:
            raise Unavailable(
                f"{self.job.name} {self.interval}: withdrawn: "
                + ", ".join(f"{one.table} at {one.high.isoformat()}" for one in gone)
                + ".",
                next_step="leave this epoch: what it would read was taken back by retention.",
                tables=tuple(one.table for one in gone),
                kept=(),
            )

    def _adopted(self, before: AttemptRecord, job: JobRecord) -> int | None:
        """Token under which complete output lies that this attempt may publish."""
        shared = self.shared_ttl is not None
        if not adoptable(before, job, self.owner) or (before.participants, before.shared) != (
            self.participants,
            shared,
        ):
            return None
        sinks = [table.name for table in self.job.outputs]
        log = [one.record for one in self._log()]
        output = written_output(log, sinks, token=before.output_token, participants=before.participants)
        whole = set(output) == set(sinks) and completed(log, before.output_token)
        return before.output_token if whole else None

    def _log(self) -> list[Stamped[BarrierRecord]]:
        return self.coordinator.barriers(self.job.domain, self.job.name, self.interval)

    def _earlier_commit(self, epoch: EpochRecord | None) -> AlreadyCommitted | None:
        """The owner's own commit when another run has committed a later revision over it."""
        if epoch is None or epoch.committed is None or epoch.committed.owner.same_wish(self.owner):
            return None
        for one in self._log():
            if one.record.state is EpochState.COMMIT and one.record.owner.same_wish(self.owner):
                commit = self.coordinator.store.changes(self.job.domain, (one.csn or 0) - 1, limit=1)[
                    0
                ].record
                return self._committed(commit.members[0].revision, one.csn)
        return None

    def _refuse_retired(self, reading: Reading) -> None:
        """:raises TopologyError: nothing more is to come of the job, or of one of the tables it declares here (R7)."""
        why = reading.records[job_key(self.job.domain, self.job.name)].record.retired
        if why:
            raise TopologyError(
                f"job {self.job.name!r} is retired: {why}.",
                next_step=f"pause its DAG; `airflow epochs revive {self.job.name}` brings the job back.",
                job=self.job.name,
                reason=why,
            )
        for name, stamped in self._own(reading).items():
            if stamped is not None:
                refuse_not_own(self.job.name, name, stamped.record)

    def _own(self, reading: Reading) -> Mapping[TableName, Stamped[TableRecord] | None]:
        return {one.name: reading.get(table_key(self.job.domain, one.name)) for one in self.job.outputs}

    def _baseline(
        self, reading: Reading, before: AttemptRecord | None
    ) -> tuple[tuple[TableName, TableRef | None], ...]:
        if before is not None:
            return before.baseline
        found = []
        for table in self.job.outputs:
            stamped = reading.get(table_key(self.job.domain, table.name))
            found.append(
                (table.name, stamped.record.ref.lasting() if stamped and stamped.record.ref else None)
            )
        return tuple(found)

    def _store(
        self,
        reading: Reading,
        stamped: Stamped[EpochRecord] | None,
        record: AttemptRecord,
        bounded: Bounded,
    ) -> int | None:
        """Write the attempt; None when something that was decided on has changed."""
        domain = self.job.domain
        before = stamped.record if stamped else None
        epoch = EpochRecord(
            interval=self.interval,
            token=record.token,
            attempt=record,
            committed=before.committed if before else None,
            committed_csn=committed_csn(stamped) if stamped else None,
        )
        lock = LockRecord(token=record.token, owner=self.owner, ttl=self._ttl)
        log = BarrierRecord(
            state=EpochState.OPEN,
            sink="",
            token=record.token,
            participant=0,
            owner=self.owner,
            note="".join((_note(record), *(f", {note}" for note in bounded.notes))),
        )
        log_key = barrier_key(
            domain, self.job.name, self.interval.start, token=record.token, sink="", state=EpochState.OPEN
        )
        # Inputs and baselines are claims: none may appear behind the back of retention (R24).
        claims = retention_key(domain)
        required = [topology_key(domain), self._epoch_key, self._lock_key, claims, *bounded.required]
        try:
            receipt = self.coordinator.store.transact(
                Transaction(
                    domain=domain,
                    store=SameStore(reading.head.incarnation),
                    requires=(*(unchanged(reading, key) for key in required), *bounded.readers),
                    updates=(
                        Put(self._epoch_key, epoch),
                        Put(self._lock_key, lock),
                        Put(log_key, log),
                        *(Put(key, one) for key, one in bounded.updates.items()),
                    ),
                )
            )
        except RequirementFailed:
            return None
        return receipt.versions[self._epoch_key]

    def _attempt(
        self, record: AttemptRecord, reading: Reading, fence: int, roots: tuple[RootBounds, ...]
    ) -> Attempt:
        return attempt_of(
            self.job,
            self.interval,
            record,
            roots,
            incarnation=reading.head.incarnation,
            fence=fence,
            ttl=self._ttl,
        )

    def _committed(self, revision: int, csn: int | None) -> AlreadyCommitted:
        return AlreadyCommitted(
            domain=self.job.domain,
            job=self.job.name,
            interval=self.interval,
            revision=revision,
            csn=csn or 0,
            change_set=change_set_id(self.job.name, self.interval, revision),
        )


def _note(record: AttemptRecord) -> str:
    adopted = f", adopts token {record.adopts}" if record.adopts is not None else ""
    skips = f", skips: {record.skips}" if record.skips else ""
    spans = "".join(f", {one.root}: {one.span}" for one in record.roots if one.span)
    return f"revision {record.revision}, input generation {record.input_generation}{adopted}{skips}{spans}"
