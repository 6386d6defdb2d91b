"""DAGs, runs and backfills as Airflow's database has them: commands may read and change it, as Airflow's own do."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain, pairwise
from typing import Any

from airflow.cli import cli_parser
from airflow.models.backfill import Backfill
from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.models.serialized_dag import SerializedDagModel
from airflow.utils.retries import run_with_db_retries
from airflow.utils.session import create_session

from airflow_provider.domain.errors import InvalidInput, Unavailable
from airflow_provider.domain.identifiers import RestatementId
from airflow_provider.domain.interval import Cadence, Interval
from airflow_provider.domain.schedule import run_interval
from airflow_provider.hooks.compat import AirflowException, partition_key
from airflow_provider.hooks.task_run import RESTATEMENT

_LOOKS_BACK = tuple(timedelta(days=days) for days in (2, 40, 400, 2_000))
"""Time before the first epoch in which the run before it is searched, in turn."""
_TRIES = 8
"""Tries while Airflow's database is locked, as Airflow's scheduler locks SQLite."""
_SUCCESS, _FAILED = "success", "failed"


@dataclass(frozen=True, slots=True)
class Runs:
    """Runs of one backfill, or runs that were cleared. :param failed: ids of those that failed."""

    number: int
    ended: int
    failed: tuple[str, ...]

    @property
    def over(self) -> bool:
        return self.ended == self.number


@dataclass(frozen=True, slots=True)
class ScheduledDag:
    """A DAG that Airflow has parsed. :param dag: as Airflow's scheduler knows it."""

    dag_id: str
    dag: Any

    @classmethod
    def of(cls, dag_id: str) -> ScheduledDag:
        """Return the DAG *dag_id*.

        :raises InvalidInput: Airflow does not know it, or it is paused.
        """
        with create_session() as session:
            known = session.get(DagModel, dag_id)
            paused = known is not None and bool(known.is_paused)
            dag = None if known is None or known.is_stale else SerializedDagModel.get_dag(dag_id)
        if dag is None:
            raise InvalidInput(
                f"Airflow has no DAG {dag_id!r}, which has computed the epochs.",
                next_step="deploy the DAG, or open a restatement (`airflow epochs restate open`) and compute these "
                "epochs by epoch_runs(…, restatement=…).",
                field="dag",
                value=dag_id,
                expected="a DAG that Airflow has parsed",
            )
        if paused:
            raise InvalidInput(
                f"DAG {dag_id!r} is paused: Airflow would make its runs and not start them.",
                next_step=f"`airflow dags unpause {dag_id}`, then repeat this command.",
                field="dag",
                value=dag_id,
                expected="a DAG that is not paused",
            )
        return cls(dag_id, dag)

    @property
    def is_periodic(self) -> bool:
        """True if Airflow can backfill it, which takes a calendar as its schedule."""
        return bool(self.dag.timetable.periodic)

    def dates(self, cadence: Cadence, epochs: Sequence[Interval]) -> tuple[datetime, datetime]:
        """Return the dates of the first and of the last run that compute *epochs*, by the DAG's present schedule.

        A run computes the epochs that end after what the run before it computes.

        :param cadence: calendar of the epochs' job.
        :raises InvalidInput: no run computes the last of them.
        """
        wanted = sorted(epoch.end for epoch in epochs)
        first: datetime | None = None
        for date, end in self._runs(cadence, min(epoch.start for epoch in epochs), wanted[0]):
            first = date if first is None and end >= wanted[0] else first
            if first is not None and end >= wanted[-1]:
                return first, date
        raise InvalidInput(
            f"DAG {self.dag_id!r} has no run, up to now, that computes the epoch which ends at {wanted[-1]}.",
            next_step="run it by hand: `airflow epochs restate open` opens a restatement, which the configuration "
            'of a run names: {"restatement": …}.',
            field="dag",
            value=self.dag_id,
            expected="a schedule whose runs compute the epochs",
        )

    def _runs(
        self, cadence: Cadence, start: datetime, first_end: datetime
    ) -> Iterator[tuple[datetime, datetime]]:
        """Yield the date of each run and the end of its last epoch, from a run before *first_end* on, if it exists."""
        now = datetime.now(UTC)
        for back in _LOOKS_BACK:
            runs = self.dag.iter_dagrun_infos_between(start - back, now)
            first = next(iter(runs), None)
            if first is not None and _interval(cadence, first).end < first_end:
                break
        for info, following in pairwise(chain(self.dag.iter_dagrun_infos_between(start - back, now), [None])):
            # A partition's key names a start: a task that computes a batch goes on up to the next key.
            keyed = following if following is not None and partition_key(following) else None
            end = _interval(cadence, info).end if keyed is None else _interval(cadence, keyed).start
            yield info.logical_date or info.run_after, end

    def backfill(
        self, restatement: RestatementId, dates: tuple[datetime, datetime], *, max_active_runs: int
    ) -> int | None:
        """Do what ``airflow backfill create`` does, for runs that compute within *restatement*; return its id.

        :return: None if its database was locked meanwhile, and a part of it goes on: try again once that has ended.
        :raises Unavailable: Airflow refuses it; says why.
        """
        words = ["--dag-id", self.dag_id, "--max-active-runs", str(max_active_runs)]
        words += ["--from-date", dates[0].isoformat(), "--to-date", dates[1].isoformat()]
        words += ["--reprocess-behavior", "completed", "--run-on-latest-version"]
        words += ["--dag-run-conf", json.dumps({RESTATEMENT: restatement})]
        arguments = cli_parser.get_parser().parse_args(["backfill", "create", *words])
        try:
            for attempt in run_with_db_retries(_TRIES):
                with attempt:
                    arguments.func(arguments)
        except (AirflowException, SystemExit) as error:
            if (found := active_backfill(self.dag_id)) is not None and found[1] == restatement:
                return None
            raise Unavailable(
                f"Airflow makes no backfill of DAG {self.dag_id!r}: {error}",
                next_step="do what it says, or wait for the other backfill, and repeat this command: it goes on.",
            ) from error
        return None if (found := active_backfill(self.dag_id)) is None else found[0]

    def clear(self, run_ids: Iterable[str], restatement: RestatementId) -> None:
        """Clear all tasks of runs, and let their configuration name the restatement within which they compute.

        Without the name, tasks of other jobs in these runs would publish epochs that are no members.
        """
        for run_id in run_ids:
            for attempt in run_with_db_retries(_TRIES):
                with attempt, create_session() as session:
                    run = session.query(DagRun).filter_by(dag_id=self.dag_id, run_id=run_id).one()
                    run.conf = {**(run.conf or {}), RESTATEMENT: restatement}
                    session.flush()
                    self.dag.clear(run_id=run_id, session=session, run_on_latest_version=True)


def active_backfill(dag_id: str) -> tuple[int, str] | None:
    """Return the id of the backfill of a DAG that goes on, and the restatement that its runs name; None without one."""
    with create_session() as session:
        found = (
            session.query(Backfill).filter_by(dag_id=dag_id, completed_at=None).order_by(Backfill.id.desc())
        )
        backfill = found.first()
        return None if backfill is None else (backfill.id, (backfill.dag_run_conf or {}).get(RESTATEMENT, ""))


def runs_of_backfill(number: int) -> Runs:
    with create_session() as session:
        found = session.query(DagRun.run_id, DagRun.state).filter_by(backfill_id=number).all()
    return _runs(found)


def runs_of(dag_id: str, run_ids: Sequence[str]) -> Runs:
    """Return the runs of a DAG among *run_ids*: those that Airflow's database still has."""
    with create_session() as session:
        query = session.query(DagRun.run_id, DagRun.state).filter_by(dag_id=dag_id)
        found = query.filter(DagRun.run_id.in_(list(run_ids))).all()
    return _runs(found)


def _runs(found: Sequence[Any]) -> Runs:
    states = {run_id: str(state) for run_id, state in found}
    failed = tuple(run_id for run_id, state in states.items() if state == _FAILED)
    ended = sum(state in (_SUCCESS, _FAILED) for state in states.values())
    return Runs(number=len(states), ended=ended, failed=failed)


def _interval(cadence: Cadence, info: Any) -> Interval:
    """Return what the run *info* computes of a job without a batch."""
    interval = None if info.data_interval is None else (info.data_interval.start, info.data_interval.end)
    return run_interval(
        cadence, partition_key=partition_key(info), data_interval=interval, run_date=info.logical_date
    )
