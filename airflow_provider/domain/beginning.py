"""Who may begin an epoch, and with which inputs (protocol section 5). Pure decisions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from airflow_provider.domain.behind import Behind, behind_in
from airflow_provider.domain.cut import as_of, before_origin, edge_range, lagging, reached, starts_with
from airflow_provider.domain.epoch import (
    AttemptRecord,
    EpochRecord,
    LockRecord,
    Owner,
    Provenance,
    expired,
)
from airflow_provider.domain.errors import EpochBusy, Fenced, FinalError, InvalidInput, TopologyError
from airflow_provider.domain.filling import skip_of_rest
from airflow_provider.domain.identifiers import JobName, TableName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import Stamped
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.topology import (
    Determinism,
    Edge,
    EdgeKind,
    EpochTable,
    OnRerun,
    OnUpstreamRevision,
    TableKind,
)
from airflow_provider.domain.version import Moved, TableRecord
from airflow_provider.domain.withdrawn import Withdrawals


class Beginning(StrEnum):
    """What begin comes to."""

    OPEN = "open"
    """A new attempt with the next token."""
    SAME = "same"
    """The request was granted before; its reply was lost."""
    COMMITTED = "committed"
    """Nothing to do: the epoch is committed and stays."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Missing:
    """An input that is not ready.

    :param way_out: what to do where waiting alone does not help.
    :param comes: runs of the table's job bring it, as long as that declares the table.
    """

    table: TableName
    reason: str
    way_out: str = ""
    comes: bool = False

    def __str__(self) -> str:
        return f"{self.table}: {self.reason}"


def check_interval(job: JobRecord, interval: Interval, *, now: datetime, tolerance: timedelta) -> None:
    """Refuse an interval that is none of the job's epochs.

    :raises InvalidInput: off the cadence, before the origin, or beyond the store's now plus *tolerance*.
    """
    epoch = job.cadence.ending_at(interval.end)
    if epoch != interval:
        raise InvalidInput(
            field="interval",
            value=str(interval),
            expected=f"one epoch of {job.name!r} ({job.cadence}), such as {epoch}",
            next_step="split the interval at the job's cadence: one begin for each epoch.",
        )
    if job.origin is not None and interval.start < job.origin:
        raise InvalidInput(
            field="interval",
            value=str(interval),
            expected=f"a start at or after the origin {job.origin.isoformat()} of job {job.name!r}",
            next_step="choose a later interval, or declare an earlier origin.",
        )
    if interval.end > now + tolerance:
        raise InvalidInput(
            field="interval",
            value=str(interval),
            expected=f"an end at or before {(now + tolerance).isoformat()} (the store's now and its tolerance)",
            next_step="run the job after the interval has ended; check the clock of this host.",
        )


def decide(
    job: JobRecord,
    epoch: EpochRecord | None,
    lock: Stamped[LockRecord] | None,
    owner: Owner,
    now: datetime,
    *,
    fills: bool = False,
    skips: bool = False,
    behind: bool = False,
) -> Beginning:
    """Decide what a begin of *owner* comes to.

    :param fills: the epoch is committed, and some of the job's tables lack it.
    :param behind: a source that it has read was bound anew: it is computed again, whatever the job does else.
    :param skips: *owner* declares that nothing is to come of it: what is committed stays, whatever the job does.
    :raises EpochBusy: a live attempt of another run.
    :raises Fenced: *owner* is older than the newest attempt of its own run.
    :raises FinalError: committed, and the job says ``on_rerun="fail"``.
    """
    if epoch is None:
        return Beginning.OPEN
    attempt = epoch.attempt
    if attempt is not None and attempt.aborted is None and attempt.owner == owner:
        return Beginning.SAME
    if skips and epoch.committed is not None and not fills:
        return Beginning.COMMITTED
    if not skips and epoch.committed is not None and epoch.committed.owner.same_wish(owner):
        return Beginning.COMMITTED
    _refuse_older(epoch, owner)
    _refuse_live(job.name, epoch, lock, owner, now)
    if epoch.committed is None or epoch.committed.skipped or skips or behind:
        return Beginning.OPEN
    if job.on_rerun is OnRerun.NEW_REVISION:
        return Beginning.OPEN
    if fills and job.on_rerun is OnRerun.KEEP:
        return Beginning.OPEN
    if job.on_rerun is OnRerun.KEEP:
        return Beginning.COMMITTED
    raise FinalError(
        f"{job.name} {epoch.interval} is committed (revision {epoch.committed.revision} by {epoch.committed.owner}) "
        f'and the job says on_rerun="fail".',
        next_step="leave it, or declare on_rerun='new_revision'.",
        job=job.name,
        interval=epoch.interval,
    )


def computes_again(epoch: EpochRecord, owner: Owner) -> bool:
    """Whether a begin of *owner* over a committed epoch is another wish for it; a skipped one was never computed."""
    committed = epoch.committed
    return committed is not None and not committed.skipped and not committed.owner.same_wish(owner)


def _refuse_older(epoch: EpochRecord, owner: Owner) -> None:
    newest = [one.owner for one in (epoch.attempt, epoch.committed) if one is not None]
    for other in newest:
        if owner.same_run(other) and owner.order < other.order:
            raise Fenced(
                f"{epoch.interval}: the attempt of {owner} is older than {other}.",
                next_step="let it end: the newer attempt does the work.",
                found=other,
                token=epoch.token,
            )


def _refuse_live(
    job: JobName,
    epoch: EpochRecord,
    lock: Stamped[LockRecord] | None,
    owner: Owner,
    now: datetime,
) -> None:
    live = holder(epoch, lock, now)
    if live is not None and not owner.same_run(live[0]):
        holding, until = live
        raise EpochBusy(
            f"{job} {epoch.interval} is computed by {holding}, whose lock lasts until {until.isoformat()}.",
            next_step="wait for it to end, or stop that run; the lock ends by itself when it is silent.",
            job=job,
            interval=epoch.interval,
            holder=holding,
            until=until,
        )


def holder(
    epoch: EpochRecord | None, lock: Stamped[LockRecord] | None, now: datetime
) -> tuple[Owner, datetime] | None:
    """Who computes *epoch* and until when that lock lasts; None when no live attempt is there."""
    attempt = epoch.attempt if epoch is not None else None
    if attempt is None or attempt.aborted is not None or lock is None or lock.record.token != attempt.token:
        return None
    if expired(lock.at, lock.record.ttl, now):
        return None
    return attempt.owner, lock.at + lock.record.ttl


def reads_of_skip(outputs: Iterable[EpochTable]) -> tuple[Edge, ...]:
    """What a skipped epoch reads: of each full table the state before, which it leaves as it is (R5)."""
    return tuple(Edge(table.name, EdgeKind.PREVIOUS) for table in outputs if table.kind is TableKind.FULL)


def next_revision(epoch: EpochRecord | None) -> int:
    return 1 if epoch is None or epoch.committed is None else epoch.committed.revision + 1


def inheritable(epoch: EpochRecord | None, job: JobRecord) -> AttemptRecord | None:
    """The earlier attempt at the same revision whose inputs a new one uses again; none that skips: it read others."""
    if epoch is None or epoch.attempt is None or epoch.attempt.skips:
        return None
    same = epoch.attempt.revision == next_revision(epoch) and epoch.attempt.job_revision == job.revision
    tables = {one.table for one in epoch.attempt.inputs}
    return epoch.attempt if same and tables == {edge.table for edge in job.edges} else None


def adoptable(attempt: AttemptRecord, job: JobRecord, owner: Owner) -> bool:
    """Whether *owner* may publish what *attempt* left, provided that all of it is WRITTEN (R16).

    Only a retry of the same wish adopts: who clears a task wants it computed again.
    """
    return (
        attempt.aborted is None
        and attempt.owner.same_wish(owner)
        and job.determinism in (Determinism.DETERMINISTIC, Determinism.KEEP_FIRST)
    )


def resolve_inputs(
    edges: Sequence[Edge],
    epoch: Interval,
    tables: Mapping[TableName, Stamped[TableRecord] | None],
    csn: int,
    *,
    copies: bool = False,
    behind: Sequence[Behind] = (),
) -> tuple[list[Provenance], list[Missing], bool]:
    """Resolve each edge at *csn*.

    :param copies: the job copies what its own tables had the epoch before, also below their origin.
    :param behind: epochs that are no input before they are computed again.
    :return: the provenance of those that are ready, those that are not, and whether some table's record has
        moved too far past *csn* to answer (then the head is to be read again).
    """
    found: list[Provenance] = []
    missing: list[Missing] = []
    for edge in edges:
        stamped = tables.get(edge.table)
        if stamped is None:
            missing.append(Missing(table=edge.table, reason="no owner yet: no job that writes it has run"))
            continue
        record = stamped.record
        moved = as_of(stamped, csn)
        # What a copy needs is told by the epochs that the record has now, which a reader of an older head does not see.
        beyond = copies and (stamped.csn or 0) > csn
        if moved is None or moved.origin != record.progress.origin or beyond:
            return [], [], True
        low, high = edge_range(edge, epoch, record)
        starts_here = starts_with(edge, record, high)
        is_there = starts_here or (copies and low is not None and record.progress.covers(Interval(low, high)))
        reason = "" if is_there else _not_ready(record, moved, low, high)
        stands = (
            None if starts_here else left_behind(edge.table, edge.on_upstream_revision, (low, high), behind)
        )
        if stands is not None and not reason:
            missing.append(Missing(table=edge.table, reason=stands.why, way_out=stands.way_out))
        elif not reason:
            found.append(
                Provenance(
                    table=edge.table,
                    kind=edge.kind,
                    low=low,
                    high=high,
                    csn=csn,
                    ref=None if starts_here else moved.ref,
                    on_upstream_revision=edge.on_upstream_revision,
                    origin=moved.origin if record.kind is TableKind.INCREMENTAL else None,
                )
            )
        else:
            way_out, begins = _way_out(record, moved, low, high), record.progress.begins
            comes = begins is None or high > begins
            missing.append(Missing(table=edge.table, reason=reason, way_out=way_out, comes=comes))
    return found, missing, False


def left_behind(
    table: TableName,
    policy: OnUpstreamRevision,
    wanted: tuple[datetime | None, datetime],
    behind: Iterable[Behind],
) -> Behind | None:
    """An epoch within *wanted* of *table* that must be computed again first; none for edges that ignore revisions."""
    if policy is OnUpstreamRevision.IGNORE:
        return None
    low, high = wanted
    return behind_in(behind, table, low, high)


def inputs_behind(inputs: Iterable[Provenance], behind: Sequence[Behind]) -> list[tuple[Provenance, Behind]]:
    """The *inputs* that have read rows of epochs that must be computed again first, each with the first of them."""
    asked = (
        (one, left_behind(one.table, one.on_upstream_revision, (one.low, one.high), behind)) for one in inputs
    )
    return [(one, entry) for one, entry in asked if entry is not None] if behind else []


def withdrawn(
    inputs: Sequence[Provenance],
    tables: Mapping[TableName, Stamped[TableRecord] | None],
    retention: Withdrawals,
) -> list[Provenance]:
    """The inputs that nobody can claim any more (R23, R24).

    An incremental table's rows up to a withdrawn barrier are all in its newest version, unlike a full table's.
    """
    found = []
    for one in inputs:
        stamped = tables.get(one.table)
        newest = stamped.record.ref if stamped else None
        full = stamped is not None and stamped.record.kind is TableKind.FULL
        if retention.superseded(one.csn, one.ref, newest) or (
            full and retention.range_at(one.table, one.high) is not None
        ):
            found.append(one)
    return found


def altered(
    inputs: Iterable[Provenance], tables: Mapping[TableName, Stamped[TableRecord] | None]
) -> list[Provenance]:
    """The inputs of which columns have changed since: a program that begins now knows the new ones (R32)."""
    found = []
    for one in inputs:
        stamped = tables.get(one.table)
        newest = stamped.record.ref if stamped else None
        if one.ref is not None and newest is not None and one.ref.schema_id != newest.schema_id:
            found.append(one)
    return found


def still_needed(
    job: JobRecord, outputs: Sequence[TableRecord], table: TableName, record: TableRecord, barrier: datetime
) -> bool:
    """Whether an epoch that *job* has not committed yet may read *table* at *barrier*.

    A job that declares no origin and has committed nothing may begin anywhere: it holds nothing back.
    """
    marks = [one.progress.next_missing if one.progress.islands else None for one in outputs]
    start = job.origin if None in marks or not marks else min(one for one in marks if one is not None)
    if start is None:
        return False
    epoch = job.cadence.ending_at(job.cadence.next_after(start))
    return any(edge_range(edge, epoch, record)[1] <= barrier for edge in job.all_edges if edge.table == table)


def _not_ready(record: TableRecord, moved: Moved, low: datetime | None, high: datetime) -> str:
    """Why ``[low, high)`` cannot be read yet; empty when it can."""
    if not reached(record, moved, high):
        lag = lagging({TableName("input"): (record, moved)}, high)[0]
        return f"needs {high.isoformat()}; {lag.reason}"
    return before_origin(record, moved, low)


def _way_out(record: TableRecord, moved: Moved, low: datetime | None, high: datetime) -> str:
    """What to do about an input that does not come by itself; empty for one that may."""
    progress, origin = record.progress, moved.origin
    if progress.begins is not None and high <= progress.begins:
        return (
            f"declare the origin {progress.begins.isoformat()} or a later one for the job that reads it, which may be "
            f"done while it has committed nothing, or an earlier one for job {record.job}"
        )
    missing = progress.next_missing
    below = (
        origin is not None and progress.start is not None and progress.start < origin and missing is not None
    )
    if origin is None or missing is None or not below or (low is not None and low >= origin):
        return ""
    return (
        f"run job {record.job} for all epochs from {missing.isoformat()} to {origin.isoformat()}, or "
        f"`airflow epochs skip {record.job} {missing.isoformat()}/{origin.isoformat()} --reason …`"
    )


def computes_first(
    job: JobName, interval: Interval, tables: Mapping[TableName, Stamped[TableRecord] | None], csn: int
) -> bool:
    """Whether nobody has computed an epoch of *tables* that *job* has not; false when one must look again.

    The epoch is read at the head *csn* or later: a table that has it from a commit up to the head has it from another
    job. One that has moved past the head since may have it from this job's own commit.

    :raises TopologyError: a table had it when the job took it over; it is not the job's to compute again (R7).
    """
    for name, stamped in tables.items():
        if stamped is None or not stamped.record.progress.covers(interval):
            continue
        if (stamped.csn or 0) > csn:
            return False
        raise of_another(job, interval, name, tables)
    return True


def of_another(
    job: JobName,
    interval: Interval,
    table: TableName,
    tables: Mapping[TableName, Stamped[TableRecord] | None],
) -> TopologyError:
    """Return the error of *job* that would replace what the job before it has computed of *table*.

    :param tables: those that it would write.
    """
    way_out = skip_of_rest(job, interval, tables) or "leave it"
    return TopologyError(
        f"{interval} of {table!r} was computed before job {job!r} took the table over.",
        next_step=f"{way_out}: a job computes its own epochs again, no other's. A version of its DAG that does not "
        f"declare {table!r} computes its other tables there again.",
        table=table,
        interval=interval,
    )
