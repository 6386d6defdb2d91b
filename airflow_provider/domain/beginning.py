"""Inputs of an epoch that begins: resolved, inherited or refused (protocol section 5). Pure decisions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from shlex import quote

from airflow_provider.domain.behind import Behind, behind_in
from airflow_provider.domain.cut import as_of, before_origin, edge_range, lagging, reached, starts_with
from airflow_provider.domain.epoch import AttemptRecord, EpochRecord, Provenance
from airflow_provider.domain.errors import TopologyError
from airflow_provider.domain.expired import ExpiredStates
from airflow_provider.domain.filling import skip_of_rest
from airflow_provider.domain.identifiers import JobName, RestatementId, TableName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.missing import UNWRITTEN, Missing
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.records import Stamped
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.topology import Determinism, Edge, EdgeKind, OnUpstreamRevision, Table
from airflow_provider.domain.topology_record import TopologyRecord
from airflow_provider.domain.version import TableRecord, TableVersion


def reads_of_skip(outputs: Iterable[Table]) -> tuple[Edge, ...]:
    """Return the edges of a skipped epoch: the state before of each full table, which the skip copies (R5)."""
    return tuple(Edge(table.name, EdgeKind.PREVIOUS) for table in outputs if table.kind.copies_when_skipped)


def next_revision(epoch: EpochRecord | None) -> int:
    """Return the revision that the next attempt computes: 1 before the first commit, and no number twice."""
    if epoch is None:
        return 1
    committed = 0 if epoch.committed is None else epoch.committed.revision
    return max(committed, 0 if epoch.taken_back is None else epoch.taken_back.revision) + 1


def next_token(epoch: EpochRecord | None, topology: Stamped[TopologyRecord] | None) -> int:
    """Return the token of the next attempt: above those of a dropped job that had the name before, too (R39)."""
    if epoch is not None:
        return epoch.token + 1
    return 1 if topology is None else topology.record.tokens + 1


def inheritable(
    epoch: EpochRecord | None, job: JobRecord, restatement: RestatementId | None = None
) -> AttemptRecord | None:
    """Return the earlier attempt at the same revision whose inputs a new attempt reuses; None if there is none.

    An attempt that skips is none: it reads its own outputs, not the inputs of the job. Nor is an attempt within another
    *restatement*, or within none: it has read the output of other epochs.
    """
    if epoch is None or epoch.attempt is None or epoch.attempt.skips:
        return None
    if epoch.attempt.restatement != restatement:
        return None
    same = epoch.attempt.revision == next_revision(epoch) and epoch.attempt.job_revision == job.revision
    tables = {read.table for read in epoch.attempt.inputs}
    return epoch.attempt if same and tables == {edge.table for edge in job.edges} else None


def adoptable(attempt: AttemptRecord, job: JobRecord, owner: Owner) -> bool:
    """Return True if *owner* may publish the output of *attempt*, provided that all of it is WRITTEN (R16).

    Only a retry of the same generation adopts: a cleared task is to be computed again.
    """
    return (
        attempt.aborted is None
        and attempt.owner.same_generation(owner)
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

    :param copies: the epoch is skipped, and copies the state before of its own full tables, also below their origin.
    :param behind: epochs that cannot be read before they are computed again.
    :return: provenance of the inputs that are ready; the inputs that are not; and True if a table's record has moved
        too far past *csn* to answer: then the caller reads the head again.
    """
    found: list[Provenance] = []
    missing: list[Missing] = []
    for edge in edges:
        stamped = tables.get(edge.table)
        if stamped is None:
            missing.append(Missing(name=edge.table, reason=f"no owner yet: {UNWRITTEN}"))
            continue
        record = stamped.record
        moved = as_of(stamped, csn)
        # A copy is judged by the epochs in the record as it is now, which a reader at an older head does not see.
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
            missing.append(Missing(name=edge.table, reason=stands.why, way_out=stands.way_out))
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
                    origin=record.kind.low(moved.origin),
                )
            )
        else:
            way_out, begins = _way_out(record, moved, low, high), record.progress.begins
            comes = begins is None or high > begins
            missing.append(Missing(name=edge.table, reason=reason, way_out=way_out, comes=comes))
    return found, missing, False


def left_behind(
    table: TableName,
    policy: OnUpstreamRevision,
    wanted: tuple[datetime | None, datetime],
    behind: Iterable[Behind],
) -> Behind | None:
    """Return an epoch within *wanted* of *table* that must be computed again first; None if revisions are ignored."""
    if policy is OnUpstreamRevision.IGNORE:
        return None
    low, high = wanted
    return behind_in(behind, table, low, high)


def inputs_behind(inputs: Iterable[Provenance], behind: Sequence[Behind]) -> list[tuple[Provenance, Behind]]:
    """Return the *inputs* with rows of epochs that must be computed again first, each with its first such epoch."""
    asked = (
        (read, left_behind(read.table, read.on_upstream_revision, (read.low, read.high), behind))
        for read in inputs
    )
    return [(read, entry) for read, entry in asked if entry is not None] if behind else []


def expired_inputs(
    inputs: Sequence[Provenance],
    tables: Mapping[TableName, Stamped[TableRecord] | None],
    retention: ExpiredStates,
) -> list[Provenance]:
    """Return the inputs that cannot be claimed any more (R23, R24).

    An expired barrier counts for full tables only: the newest version of an incremental table has all rows up to it.
    """
    found = []
    for read in inputs:
        stamped = tables.get(read.table)
        newest = stamped.record.ref if stamped else None
        loses = stamped is not None and stamped.record.kind.loses_expired
        if retention.superseded(read.csn, read.ref, newest) or (
            loses and retention.range_at(read.table, read.high) is not None
        ):
            found.append(read)
    return found


def altered(
    inputs: Iterable[Provenance], tables: Mapping[TableName, Stamped[TableRecord] | None]
) -> list[Provenance]:
    """Return the inputs whose columns have changed since: a program that begins now expects the new ones (R32)."""
    found = []
    for read in inputs:
        stamped = tables.get(read.table)
        newest = stamped.record.ref if stamped else None
        if read.ref is not None and newest is not None and read.ref.schema_id != newest.schema_id:
            found.append(read)
    return found


def _not_ready(record: TableRecord, moved: TableVersion, low: datetime | None, high: datetime) -> str:
    """Return the reason why ``[low, high)`` cannot be read yet; empty when it can."""
    if not reached(record, moved, high):
        lag = lagging({TableName("input"): (record, moved)}, high)[0]
        return f"needs {high.isoformat()}; {lag.reason}"
    return before_origin(record, moved, low)


def _way_out(record: TableRecord, moved: TableVersion, low: datetime | None, high: datetime) -> str:
    """Return the next step for an input that waiting alone does not bring; empty for one that waiting may bring."""
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
        f"`airflow epochs skip {quote(record.job)} {missing.isoformat()}/{origin.isoformat()} --reason …`"
    )


def computes_first(
    job: JobName, interval: Interval, tables: Mapping[TableName, Stamped[TableRecord] | None], csn: int
) -> bool:
    """Return True if no other job has computed *interval* of *tables*; False if the caller must read the head again.

    *job* itself has not committed the epoch, whose record is read at the head *csn* or later. So a table that has the
    interval from a commit up to the head has it from another job. A table that has moved past the head since may have
    it from this job's own commit.

    :raises TopologyError: a table had the interval when *job* took the table over: *job* may not compute it again (R7).
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
    """Return the error for *job*, which would replace rows of *table* that an earlier job has computed.

    :param tables: the tables that the epoch would write.
    """
    way_out = skip_of_rest(job, interval, tables) or "leave it"
    return TopologyError(
        f"{interval} of {table!r} was computed before job {job!r} took the table over.",
        next_step=f"{way_out}: a job computes its own epochs again, no other's. A version of its DAG that does not "
        f"declare {table!r} computes its other tables there again.",
        table=table,
        interval=interval,
    )
