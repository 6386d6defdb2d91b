"""Operator that publishes a restatement, and tells Airflow's assets of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import AssetAlias, BaseOperator

from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.identifiers import domain_name, restatement_id
from airflow_provider.hooks.arguments import is_parsed, refuse_connections
from airflow_provider.hooks.epochs import DEFAULT_CONN_ID, EpochsHook
from airflow_provider.hooks.task_run import final_errors_end_retries, task_owner
from airflow_provider.operators.assets import listed

if TYPE_CHECKING:
    from airflow.sdk import Context

RESTATED = AssetAlias("epochs.restated", group="epochs")
"""Alias by which tasks send events of tables that are not known before they run: Airflow's UI lists them under it."""


class PublishRestatementOperator(BaseOperator):
    """Publish all members of a restatement by one commit, and send one asset event for each table; return the CSN.

    The events start the DAGs that follow the tables, as those of the tasks that compute epochs do. Runs that they start
    leave committed epochs as they are. A retry, or a cleared task, of one that is published sends the events again.

    :param restatement: its name (templated). :param domain: its domain (templated).
    :param digest: of what a person has looked at and approves (templated): if a member was computed again since,
        the task fails. Empty for a restatement that is approved already, or needs no approval.
    :param by: the person (templated); by default this run of the DAG.
    :param epochs_conn_id: connection of the metadata store.
    """

    template_fields: Sequence[str] = ("restatement", "domain", "digest", "by")
    ui_color = "#e8dcf5"

    def __init__(
        self,
        *,
        restatement: str,
        domain: str = "default",
        digest: str = "",
        by: str = "",
        epochs_conn_id: str = DEFAULT_CONN_ID,
        **kwargs: Any,
    ) -> None:
        super().__init__(**{**kwargs, "outlets": [*listed(kwargs.get("outlets")), RESTATED]})
        self.restatement = restatement
        self.domain = domain
        self.digest = digest
        self.by = by
        self.epochs_conn_id = epochs_conn_id
        if is_parsed(self):
            if isinstance(restatement, str) and not restatement.strip():
                raise InvalidInput(
                    field="restatement",
                    value=restatement,
                    expected="the name of a restatement, or a template such as '{{ params.restatement }}'",
                )
            refuse_connections(epochs_conn_id=epochs_conn_id)

    def execute(self, context: Context) -> int:
        """Publish, and fill in the events.

        :raises AirflowFailException: for an error that no retry can cure, such as a restatement that is abandoned.
        """
        from airflow_provider.coordination.commits.staged import restatement_of
        from airflow_provider.domain.restatement import RestatementState
        from airflow_provider.hooks.restated_assets import restated_events

        with final_errors_end_retries(), EpochsHook(self.epochs_conn_id).get_conn(create=False) as service:
            domain, name = domain_name(self.domain), restatement_id(self.restatement)
            record = restatement_of(service.store, domain, name).record
            if self.digest and record.state is not RestatementState.PUBLISHED:
                by = self.by or f"run {task_owner(context).run_id} of DAG {task_owner(context).dag_id}"
                service.restatements.approve(domain, name, output=self.digest, by=by)
            csn = service.restatements.publish(domain, name)
            events = context["outlet_events"][RESTATED]
            for asset, extra in restated_events(service, domain, name, csn):
                events.add(asset, extra=extra)
        self.log.info("Restatement %s: %d epochs are published at CSN %d", name, record.size, csn)
        return csn
