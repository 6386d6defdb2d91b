"""Deploy mode ``cluster`` of ``spark-submit`` on YARN: Spark's ``--files`` ships the launch spec to the driver.

The file lies in the application's staging folder, which YARN deletes at its end, and in the containers' private
folders. Spark's settings hold its name alone.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider.domain.errors import InvalidInput

if TYPE_CHECKING:
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
    from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

    from airflow_provider.coordination.service import EpochService

MODE = "cluster"
STARTS = "spark.yarn.maxAppAttempts"
NAMED = "spark.yarn.appMasterEnv."
REQUIRED = {
    STARTS: ("1", "a second driver would continue the attempt of the first, and no token tells them apart"),
    "spark.yarn.submit.waitAppCompletion": (
        "true",
        "the operator renews the epoch's lock while spark-submit runs",
    ),
    "spark.yarn.preserve.staging.files": (
        "false",
        "the launch spec, with the store's password, would be kept",
    ),
}
"""Settings that the operator sets, and refuses to have otherwise; with the reasons."""


def refuse_store(epochs_conn_id: str, service: EpochService) -> None:
    """:raises StoreIncompatible: the metadata store of this connection is for one host."""
    from airflow_provider.spark import refusals
    from airflow_provider.stores.base import StoreCapability

    if StoreCapability.CLUSTER not in service.store.capabilities:
        raise refusals.one_host(f"the metadata store of connection {epochs_conn_id!r}")


def refuse(operator: SparkSubmitOperator, hook: SparkSubmitHook) -> None:
    """Refuse what would lose the driver, or keep the launch spec.

    :raises InvalidInput: the master is not YARN, or a setting is one of :data:`REQUIRED` with another value.
    """
    master = hook._connection["master"]  # noqa: SLF001 - Airflow has no public way to ask
    if not hook._is_yarn_cluster_mode:  # noqa: SLF001
        raise InvalidInput(
            field="deploy_mode",
            value=f"{MODE} with master {master}",
            expected="client, or a connection to YARN: elsewhere what is handed over stays behind, with its password",
            next_step="use deploy mode 'client'.",
        )
    if hook._yarn_track_via_rm_api:  # noqa: SLF001
        raise InvalidInput(
            field="yarn_track_via_rm_api",
            value=True,
            expected="False: the operator waits for spark-submit",
            next_step="leave yarn_track_via_rm_api out.",
        )
    if shutil.which("yarn") is None:
        raise InvalidInput(
            field="PATH",
            value=os.environ.get("PATH"),
            expected="a folder with Hadoop's command yarn: it ends the application of a task that is ended",
            next_step="install Hadoop's client on Airflow's workers, or use deploy mode 'client'.",
        )
    for name, (wanted, reason) in REQUIRED.items():
        found = (operator.conf or {}).get(name, wanted)
        if str(found).strip().lower() != wanted:
            raise InvalidInput(
                field=name,
                value=found,
                expected=f"{wanted}: {reason}",
                next_step=f"leave {name} out of conf.",
            )


@contextmanager
def shipped(operator: SparkSubmitOperator, spec: Path, variable: str) -> Iterator[None]:
    """Let *operator* submit with the file *spec*, which the driver finds by its name in the environment."""
    conf, files = operator.conf, operator.files
    operator.conf = {
        **(conf or {}),
        **{name: value for name, (value, _) in REQUIRED.items()},
        f"{NAMED}{variable}": spec.name,
    }
    operator.files = ",".join(filter(None, [files, str(spec)]))
    operator._hook = None  # noqa: SLF001 - it has the files and settings of an earlier submission
    try:
        yield
    finally:
        operator.conf, operator.files = conf, files
