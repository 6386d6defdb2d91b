"""Operator that skips the run's epochs, where a DAG knows that nothing will come of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.interval import Cadence, Interval
from airflow_provider.domain.schedule import ExplicitInterval
from airflow_provider.domain.topology import Job, as_job
from airflow_provider.domain.watermark import merged
from airflow_provider.hooks.arguments import is_parsed, known_interval, refuse_connections
from airflow_provider.hooks.epochs import DEFAULT_CONN_ID, EpochsHook
from airflow_provider.hooks.schedules import refuse_schedule
from airflow_provider.hooks.task_run import (
    as_cadence,
    asked_intervals,
    final_errors_end_retries,
    grid_query,
    hull,
    task_intervals,
    task_owner,
)
from airflow_provider.links.epochs import EpochGridLink
from airflow_provider.operators.assets import announce, with_assets, withhold
from airflow_provider.operators.openlineage import WithLineage, note_published

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider.coordination.service import EpochService
    from airflow_provider.domain.epoch import Published


class EpochSkipOperator(WithLineage, BaseOperator):
    """Skip the run's epochs of a job, and send the events of its tables: a holiday, a day without a delivery.

    Readers go on: an incremental table has no rows there, a full table what it had before. What is committed stays as
    it is. A task that computes a skipped epoch later replaces it.

    :param job: the declaration, with the job's tables.
    :param reason: why nothing comes (templated); kept with the commit.
    :param interval: interval to skip (templated); None for the interval of the run.
    :param batch: calendar of the runs, if one run stands for several epochs.
    :param epochs_conn_id: connection of the metadata store.
    """

    template_fields: Sequence[str] = ("reason", "interval")
    operator_extra_links = (EpochGridLink(),)
    ui_color = "#e8dcf5"

    def __init__(
        self,
        *,
        job: Job,
        reason: str,
        interval: ExplicitInterval | None = None,
        batch: Cadence | str | None = None,
        epochs_conn_id: str = DEFAULT_CONN_ID,
        **kwargs: Any,
    ) -> None:
        job = as_job(job)
        super().__init__(**{**kwargs, "outlets": with_assets(job, kwargs.get("outlets"))})
        self.job = job
        self.reason = reason
        self.interval = interval
        self.batch = as_cadence(batch, "batch")
        self.epochs_conn_id = epochs_conn_id
        self.grid_query: dict[str, str] = {}
        if is_parsed(self):
            if isinstance(reason, str) and not reason.strip():
                raise InvalidInput(
                    field="reason", value=reason, expected="words that others will understand later"
                )
            known_interval(self.job.cadence, interval, self.batch)
            refuse_schedule(self, self.job, self.batch, interval)
            refuse_connections(epochs_conn_id=epochs_conn_id)

    def execute(self, context: Context) -> dict[str, list[str]]:
        """Skip, and announce what is committed for this run.

        :return: the epochs ``skipped``, those that are committed by others and ``left``, and what no later epoch of the
            job reads of its sources (``unread``, ``late``), as text.
        :raises AirflowFailException: for an error that no retry can cure, such as a job that was never run.
        """
        from airflow_provider.operators.restating import not_asked  # heavy: not at each parse of a DAG

        refuse_schedule(self, self.job, self.batch, self.interval)
        with final_errors_end_retries():
            intervals = task_intervals(context, self.job, explicit=self.interval, batch=self.batch)
            self.grid_query = grid_query(self.epochs_conn_id, self.job, hull(intervals))
            asked = asked_intervals(context, self.job, explicit=self.interval, batch=self.batch)
            run = task_owner(context)
            by = f"run {run.run_id} of DAG {run.dag_id}"
            epochs = [epoch for interval in intervals for epoch in self.job.cadence.split(interval)]
            with EpochsHook(self.epochs_conn_id).get_conn(create=False) as service:
                before = (
                    set()
                    if asked is None
                    else not_asked(service, self.job, epochs, owner=run, within=asked)[1]
                )
                epochs = [epoch for epoch in epochs if epoch not in before]
                found = [
                    service.skip(self.job.domain, self.job.name, interval, self.reason, by=by)
                    for interval in merged(epochs)
                ]
                own = [done for epoch in epochs for done in _skipped(service, self.job, epoch, by)]
                note_published(self, service, self.job, own)
        if own:
            announce(context, self.job, own)
        else:
            withhold(self, self.job)
        mine = {done.interval for done in own}
        told = {
            "skipped": [str(done.interval) for done in own],
            "left": [str(epoch) for each in found for epoch in each.left if epoch not in mine],
            "unread": [str(bounds) for each in found for bounds in each.unread],
            "late": [file for each in found for file in each.late],
        }
        if before:
            named = ", ".join(map(str, sorted(before)))
            self.log.info(
                "Left before the beginning of %s, as the events of a restatement alone name it: %s",
                self.job.name,
                named,
            )
        for name, values in told.items():
            if values:
                self.log.info("%s: %s: %s", self.job.name, name, ", ".join(values))
        for line in (line for each in found for line in each.stalled):
            self.log.warning("A group is not published yet: %s", line)
        return told


def _skipped(service: EpochService, job: Job, epoch: Interval, by: str) -> list[Published]:
    """Return *epoch* if its newest commit is the one by which *by* has skipped it, for some tables at least."""
    from airflow_provider.coordination.upkeep.skip import owner_of_skip
    from airflow_provider.domain.records import fence_of
    from airflow_provider.operators import outcome

    owner, key = owner_of_skip(by, epoch), fence_of(job.epoch(epoch))
    stamped = service.store.read(job.domain, [key]).get(key)
    committed = None if stamped is None else stamped.record.committed
    if committed is None or not committed.owner.same_generation(owner):
        return []
    return outcome.published_epochs(service.store, job, [epoch], owner)
