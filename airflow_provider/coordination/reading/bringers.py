"""Writers of awaited tables: the job and DAG that bring each, and the state of its first missing epoch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from airflow_provider.coordination.commits.similar_names import meant
from airflow_provider.coordination.reading.wait import Readiness
from airflow_provider.domain.admission import holder
from airflow_provider.domain.cut import newest_version
from airflow_provider.domain.epoch import EpochRecord
from airflow_provider.domain.errors import NotReady
from airflow_provider.domain.identifiers import DomainName, JobName, TableName, domain_name
from airflow_provider.domain.interval import Interval, time_key
from airflow_provider.domain.missing import UNWRITTEN, Missing
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.records import Stamped, epoch_key, lock_key, table_key
from airflow_provider.domain.version import TableRecord
from airflow_provider.stores.base import MetadataReader, scan


@dataclass(frozen=True, kw_only=True, slots=True)
class Bringer:
    """Writer of an awaited table.

    :param job: writes the table; None if no job that writes it has run.
    :param owner: of the last work on the epoch that the table lacks, or on the newest epoch.
    :param epoch: the first epoch that the table lacks; None if it has no beginning yet.
    :param is_due: that epoch has ended, by the store's clock.
    :param is_open: its attempt has not ended. :param until: end of its lock; None where the lock has ended.
    :param failed: why its newest attempt has ended without a commit; empty if it has not.
    :param is_staged: it is computed, and waits for others to be published with it.
    :param meant: similar names, see :func:`meant`.
    """

    table: TableName
    job: JobName | None = None
    owner: Owner | None = None
    epoch: Interval | None = None
    is_due: bool = False
    is_open: bool = False
    until: datetime | None = None
    failed: str = ""
    is_staged: bool = False
    meant: str = ""

    def __str__(self) -> str:
        run = self.owner.run_id if self.is_open and self.owner else ""
        return f"{self.table}: {self._source}" + (f", begun by run {run} and not ended" if run else "")

    @property
    def told(self) -> str:
        """The writer, the state of the missing epoch, and the time at which that is due."""
        return self._source if self.job is None else f"{self._source}{self._now}{self._due}"

    @property
    def _source(self) -> str:
        if self.job is None:
            return f"{UNWRITTEN}{self.meant}"
        dag = f" of DAG {self.owner.dag_id}" if self.owner and self.owner.names_dag else ""
        return f"brought by job {self.job}{dag}"

    @property
    def _now(self) -> str:
        """State of the missing epoch, as the store has it."""
        run = f" by run {self.owner.run_id}" if self.owner else ""
        if self.is_open:
            lock = f"until {self.until.isoformat()}" if self.until else "no longer"
            return f", begun{run} and not ended, whose lock lasts {lock}"
        if self.failed:
            return f", whose last attempt{run} failed: {self.failed}"
        return ", computed and not published yet" if self.is_staged else ", not begun"

    @property
    def _due(self) -> str:
        if self.epoch is None:
            return ""
        return f"; due {'since' if self.is_due else 'at'} {self.epoch.end.isoformat()}"


def bringers(reader: MetadataReader, domain: str, missing: Iterable[TableName]) -> list[Bringer]:
    """Return the writer of each table in *missing*, or similar names of an unknown one."""
    name = domain_name(domain)
    wanted = list(dict.fromkeys(missing))
    found = reader.read(name, [table_key(name, table) for table in wanted])
    stops: dict[TableName, Stamped[EpochRecord]] = {}
    for table in wanted:
        stamped = found.get(table_key(name, table))
        if stamped is not None and (epoch := _last_work(reader, name, stamped)) is not None:
            stops[table] = epoch
    locks = reader.read(
        name,
        [
            lock_key(name, JobName(epoch.key.partition), epoch.record.interval.start)
            for epoch in stops.values()
        ],
    )
    told = []
    for table in wanted:
        stamped = found.get(table_key(name, table))
        if stamped is None:
            told.append(Bringer(table=table, meant=meant(reader, name, table)))
            continue
        lacks = lacking(stamped)
        bringer = Bringer(
            table=table,
            job=stamped.record.job,
            epoch=lacks,
            is_due=lacks is not None and lacks.end <= found.now,
        )
        if table in stops:
            record = stops[table].record
            lock = locks.get(lock_key(name, stamped.record.job, record.interval.start))
            live = holder(record, lock, locks.now)
            bringer = _with_work(bringer, record, lacks, None if live is None else live[1])
        told.append(bringer)
    return told


def lacking(table: Stamped[TableRecord]) -> Interval | None:
    """Return the first epoch that *table* lacks; None if it has no beginning yet, or nothing more comes of it."""
    version = newest_version(table)
    start = version.watermark or version.origin
    if start is None or table.record.ended:
        return None
    return Interval(start, table.record.cadence.next_after(start))


def _last_work(
    reader: MetadataReader, domain: DomainName, table: Stamped[TableRecord]
) -> Stamped[EpochRecord] | None:
    """Return the first epoch from the table's watermark on; if there is none, the newest one before."""
    stands = newest_version(table).watermark
    look = partial(scan, reader, domain, EpochRecord, table.record.job, limit=1)
    found = look(start=None if stands is None else time_key(stands)) or look(reverse=True)
    return next(iter(found), None)


def _with_work(
    bringer: Bringer, record: EpochRecord, lacks: Interval | None, until: datetime | None
) -> Bringer:
    attempt, work = record.attempt, record.attempt or record.committed
    owner = None if work is None else work.owner
    is_it = lacks is None or record.interval.start == lacks.start
    if attempt is None or not is_it:
        return replace(bringer, owner=owner)
    return replace(
        bringer,
        owner=owner,
        is_open=attempt.aborted is None and not attempt.staged,
        until=until,
        is_staged=attempt.aborted is None and attempt.staged,
        failed="" if attempt.aborted is None else _reason(record),
    )


def _reason(record: EpochRecord) -> str:
    attempt = record.attempt
    if attempt is None or attempt.aborted is None:
        return ""
    return f"{'a check refused its rows: ' if attempt.check_failed else ''}{attempt.aborted}"


def with_failures(
    reader: MetadataReader, domain: str, answer: Readiness, tables: Iterable[TableName]
) -> Readiness:
    """Return *answer*, with what has failed of the epochs that it lacks: of each table the first one.

    Reads single records only, so that the answer changes when one of them does.

    :param tables: that are waited for: what else lacks, such as a source, has no epoch that fails.
    """
    name, awaited = domain_name(domain), set(tables)
    lags = {table_key(name, lag.table): lag for lag in answer.missing if lag.table in awaited}
    found = reader.read(name, list(lags))
    lacked = {}
    for key, lag in lags.items():
        stamped = found.get(key)
        lacks = None if stamped is None else lacking(stamped)
        if stamped is None or lacks is None or (lag.wanted is not None and lacks.start >= lag.wanted):
            continue  # an epoch after what is waited for may fail
        lacked[stamped] = lacks
    return replace(answer, failed="; ".join(_failures(reader, name, lacked)))


def _failures(
    reader: MetadataReader, domain: DomainName, lacked: Mapping[Stamped[TableRecord], Interval]
) -> Sequence[str]:
    keys = {
        stamped.key.item: epoch_key(domain, stamped.record.job, lacks.start)
        for stamped, lacks in lacked.items()
    }
    epochs = reader.read(domain, list(dict.fromkeys(keys.values())))
    told = []
    for stamped in lacked:
        epoch = epochs.get(keys[stamped.key.item])
        reason = "" if epoch is None else _reason(epoch.record)
        if epoch is not None and epoch.record.attempt is not None and reason:
            owner = epoch.record.attempt.owner
            told.append(
                f"{stamped.key.item}: epoch {epoch.record.interval} of job {stamped.record.job} failed in run "
                f"{owner.run_id} of DAG {owner.dag_id}: {reason}"
            )
    return told


def refuse_failed(answer: Readiness) -> None:
    """Raise for an answer that names failures.

    :raises NotReady: the newest attempt at an epoch that is waited for has failed; ``missing`` is that of *answer*.
    """
    if answer.failed:
        raise NotReady(
            f"not waited for any longer, as on_upstream_failure='fail' says: {answer.failed}.",
            next_step="mend what failed and clear its task, then this one; `airflow epochs explain` tells more.",
            missing=answer.missing,
        )


def told_wait(
    answer: Readiness, names: Iterable[str], found: Iterable[Bringer], until: datetime | None
) -> str:
    """Return the line with which a task begins to wait: for what, since when it is due, and which DAG brings it."""
    known = {bringer.table: bringer for bringer in found}
    lags = [_told(lag, known.get(lag.table)) for lag in answer.missing]
    limit = "" if until is None else f", until {until.isoformat(timespec='seconds')} at most"
    return f"Waiting for {', '.join(names)} at {answer.barrier.isoformat()}{limit}: {'; '.join(lags)}"


def _told(lag: Missing, bringer: Bringer | None) -> str:
    if bringer is None:
        return str(lag)
    if bringer.job is None and UNWRITTEN in lag.reason:
        return f"{lag}{bringer.meant}"
    return f"{lag} ({bringer.told})"
