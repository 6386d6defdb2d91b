"""Deploy mode ``cluster``: what spark-submit is called with, and what is refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.apache.spark.hooks import spark_submit

from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.topology import Job, Table
from airflow_provider.operators import spark_cluster
from airflow_provider.operators.spark_submit import EpochSparkSubmitOperator

JOB = Job("daily", outputs=[Table("rows")], cadence="@daily")
SPEC = Path("/private/launch-spec-1.json")


def operator(monkeypatch: pytest.MonkeyPatch, host: str = "yarn", **options: Any) -> EpochSparkSubmitOperator:
    connection = {"conn_type": "spark", "host": host, "extra": {"deploy-mode": "cluster"}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
    return EpochSparkSubmitOperator(task_id="compute", job=JOB, application="program.py", **options)


def test_arguments_of_spark_submit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings name the file, and none of them is left for the next submission."""
    task = operator(monkeypatch, conf={"spark.executor.memory": "1g"}, files="/data/a.csv")
    with spark_cluster.shipped(task, SPEC, "VARIABLE"):
        command = task._get_hook()._build_spark_submit_command("program.py")
    assert command[command.index("--files") + 1] == f"/data/a.csv,{SPEC}"
    assert {word for word in command if word.startswith("spark.")} == {
        "spark.executor.memory=1g",
        "spark.yarn.maxAppAttempts=1",
        "spark.yarn.submit.waitAppCompletion=true",
        "spark.yarn.preserve.staging.files=false",
        "spark.yarn.appMasterEnv.VARIABLE=launch-spec-1.json",
    }
    assert (task.conf, task.files) == ({"spark.executor.memory": "1g"}, "/data/a.csv")


@pytest.mark.parametrize(
    ("host", "options", "words"),
    [
        ("k8s://https://kubernetes", {}, "deploy_mode.*k8s://"),
        ("spark://master:7077", {}, "deploy_mode.*spark://"),
        ("yarn", {"yarn_track_via_rm_api": True}, "yarn_track_via_rm_api"),
        ("yarn", {"conf": {"spark.yarn.maxAppAttempts": 2}}, "spark.yarn.maxAppAttempts"),
        ("yarn", {"conf": {"spark.yarn.submit.waitAppCompletion": False}}, "waitAppCompletion"),
        ("yarn", {"conf": {"spark.yarn.preserve.staging.files": "TRUE"}}, "preserve.staging.files"),
    ],
)
def test_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, host: str, options: dict[str, Any], words: str
) -> None:
    # Airflow's hook asks for the client of Kubernetes, which is not installed here, before anything is refused.
    monkeypatch.setattr(spark_submit, "kube_client", object(), raising=False)
    task = operator(monkeypatch, host, **options)
    with pytest.raises(InvalidInput, match=words):
        spark_cluster.refuse(task, task._get_hook())


@pytest.fixture(autouse=True)
def _yarn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "yarn").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))


def test_required_settings_are_not_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    task = operator(monkeypatch, conf={name: value for name, (value, _) in spark_cluster.REQUIRED.items()})
    spark_cluster.refuse(task, task._get_hook())
    (tmp_path / "yarn").unlink()
    with pytest.raises(InvalidInput, match="PATH.*yarn"):
        spark_cluster.refuse(task, task._get_hook())
