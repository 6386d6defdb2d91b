"""Ways in which a task starts after something has been written; runs are started by hand.

Of the same DAG, after an epoch, after another DAG's task by ``ExternalTaskSensor`` with its defaults, after an asset's
event.
"""

from __future__ import annotations

from airflow.providers.standard.sensors.external_task import ExternalTaskSensor
from airflow.sdk import DAG, Asset, task

from airflow_provider import Table
from airflow_provider.sensors.epochs import EpochSensor

ROWS, ROWS_IN_WORKER = Table("rows"), Table("rows_in_worker")
HANDED_OVER = Asset("handed_over")


@task
def first() -> None:
    """Write nothing."""


@task
def then() -> None:
    """Read nothing: only its start counts."""


with DAG("same_dag", schedule=None):
    first() >> then()

with DAG("after_epoch", schedule=None):
    wait = EpochSensor(task_id="wait", tables=[ROWS], at="{{ logical_date.isoformat() }}", deferrable=True)
    wait >> then()

with DAG("after_epoch_in_worker", schedule=None):
    wait = EpochSensor(
        task_id="wait", tables=[ROWS_IN_WORKER], at="{{ logical_date.isoformat() }}", deferrable=False
    )
    wait >> then()

with DAG("upstream", schedule=None):
    first()

with DAG("after_task", schedule=None):
    ExternalTaskSensor(task_id="wait", external_dag_id="upstream", external_task_id="first") >> then()

with DAG("asset_upstream", schedule=None):
    task(task_id="first", outlets=[HANDED_OVER])(first.function)()

with DAG("after_asset", schedule=[HANDED_OVER]):
    then()
