"""Origins of tables when the origin of their job changes (R7). Pure decisions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from airflow_provider.domain.errors import DependentReaders, TopologyError
from airflow_provider.domain.identifiers import JobName, TableName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.topology import Edge, EdgeKind, Table
from airflow_provider.domain.version import TableRecord
from airflow_provider.domain.watermark import Progress


def moved_origin(progress: Progress, origin: datetime | None, former: datetime | None) -> Progress:
    """Return the progress of a table whose job declares *origin* now.

    A table that began later than its job keeps its own start: the job got it later (R7).

    :param former: origin that the job declared before, or that of the job from which it takes the table over.
    """
    begins = progress.begins
    if origin is None or progress.origin is None or origin == begins:
        return progress
    if begins is None:
        return progress.declared_at(origin) if origin <= (progress.start or origin) else progress
    if origin > begins:
        return progress if progress.islands else progress.declared_at(origin)
    return progress if former is not None and begins > former else progress.declared_at(origin)


def uncovered(before: Progress, after: Progress) -> Interval | None:
    """Return the range that readers took for empty, and that may have rows now; None if there is none."""
    old, new = before.start, after.start
    return Interval(new, old) if old is not None and new is not None and new < old else None


def origin_is_read(job: JobName, table: TableName, span: Interval, error: DependentReaders) -> TopologyError:
    """Return the error for an origin that cannot move back: committed epochs have read that there were no rows."""
    readers = error.readers
    return TopologyError(
        f"the origin of job {job!r} cannot move back to {span.start.isoformat()}: committed epochs have read that "
        f"there was nothing of {table!r} before {span.end.isoformat()}: "
        + "; ".join(f"{reader.job} {reader.interval}" for reader in readers)
        + ".",
        next_step=f"keep the origin, or declare a job and tables of new names that begin at {span.start.isoformat()}.",
        job=job,
        table=table,
        expected=span.end.isoformat(),
        found=span.start.isoformat(),
        readers=readers,
    )


def refuse_forward(
    job: JobName,
    origin: datetime,
    former: datetime,
    tables: Iterable[TableRecord],
    attempts: Sequence[Interval],
) -> None:
    """Refuse to move a declared origin forward once the job has computed or begun an epoch (R7).

    :param attempts: open epochs of the job.
    :raises TopologyError: the job's tables have epochs, or an epoch is open.
    """
    if not any(table.progress.islands for table in tables) and not attempts:
        return
    raise TopologyError(
        f"job {job!r} begins at {former.isoformat()}; its origin cannot move forward to "
        f"{origin.isoformat()}: "
        + (f"{attempts[0]} is being computed." if attempts else "its tables wait for the epochs before it."),
        next_step="keep the origin, or declare a job and tables of new names.",
        job=job,
        expected=former.isoformat(),
        found=origin.isoformat(),
    )


def refuse_unjoined(
    job: JobName,
    interval: Interval,
    edges: Iterable[Edge],
    outputs: Iterable[Table],
    tables: Mapping[TableName, TableRecord],
) -> None:
    """Refuse an epoch below the origin of a table that the job itself reads by ``previous``.

    The next epoch would wait until this one is visible, and this one is visible only once the epochs up to the origin
    are committed.

    :param tables: records of the outputs.
    :raises TopologyError: names the table.
    """
    own = {table.name for table in outputs}
    for edge in edges:
        record = tables.get(edge.table)
        if edge.kind is not EdgeKind.PREVIOUS or edge.table not in own or record is None:
            continue
        origin = record.progress.origin
        if origin is not None and interval.end < origin:
            raise TopologyError(
                f"{interval} lies before {origin.isoformat()}, where {edge.table!r} begins, and job {job!r} reads the "
                "epoch before of it: the epochs between could not be computed.",
                next_step=f"run the epoch with a declaration that leaves {edge.table!r} out.",
                job=job,
                table=edge.table,
                interval=interval,
            )
