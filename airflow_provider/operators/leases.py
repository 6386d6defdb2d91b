"""Operator that ends a lease, as the teardown of the sensor that made it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_provider.domain.errors import LeaseExpired
from airflow_provider.hooks.arguments import is_parsed, refuse_connections
from airflow_provider.hooks.epochs import DEFAULT_CONN_ID, EpochsHook
from airflow_provider.hooks.task_run import final_errors_end_retries

if TYPE_CHECKING:
    from airflow.sdk import Context


class EpochReleaseOperator(BaseOperator):
    """End the lease of ``EpochSensor(lease=…)``; return True if it was still held.

    As a teardown it runs after the tasks that read the cut, whether they failed or not:
    ``EpochReleaseOperator(task_id="release", held=sensor.output).as_teardown(setups=sensor)``.

    :param held: what the sensor returned (templated). :param epochs_conn_id: connection of the metadata store.
    """

    template_fields: Sequence[str] = ("held",)
    ui_color = "#d7ebe6"

    def __init__(
        self, *, held: Mapping[str, Any] | Any, epochs_conn_id: str = DEFAULT_CONN_ID, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.held = held
        self.epochs_conn_id = epochs_conn_id
        if is_parsed(self):
            refuse_connections(epochs_conn_id=epochs_conn_id)

    def execute(self, context: Context) -> bool:  # noqa: ARG002
        """Drop the lease.

        :raises AirflowFailException: ``held`` names no lease.
        """
        with final_errors_end_retries(), EpochsHook(self.epochs_conn_id).get_conn(create=False) as service:
            try:
                lease = service.leases.found(self.held)
            except LeaseExpired as ended:
                self.log.info("Nothing to release: %s", ended.message)
                return False
            service.leases.drop(lease)
        self.log.info("Released %s", self.held["lease"])
        return True
