"""Where the demo's tables lie: what is missing is named first, and no process is led to another store."""

from __future__ import annotations

from pathlib import Path

import pytest

from demo import warehouses
from demo.stack import DemoStack, Plan
from demo.stores import MissingProgramError
from demo.warehouses import LocalWarehouse, S3Warehouse, pinned_jars
from tests.servers.ports import free_port


def plan(warehouse: str) -> Plan:
    return Plan(port=free_port(), connect_port=free_port(), warehouse=warehouse)


def test_what_s3_needs_is_named_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = tmp_path / "hadoop-aws-0.jar"
    monkeypatch.setattr(warehouses, "pinned_jars", lambda: [absent])
    stack = DemoStack(home=tmp_path / "demo", plan=plan("s3"))
    with pytest.raises(MissingProgramError, match=r"hadoop-aws-0\.jar.* `make demo WAREHOUSE=s3` fetches"):
        stack.claimed().__enter__()
    assert not stack.home.exists()


def test_jars_are_those_that_are_pinned() -> None:
    """A name each, as scripts/prepare-iceberg writes them."""
    names = [path.name.rpartition("-")[0] for path in pinned_jars()]
    assert names == ["iceberg-spark-runtime-4.1_2.13", "hadoop-aws", "bundle"]


@pytest.mark.parametrize("name", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ACCESS_KEY_ID"])
def test_settings_of_the_user_lead_no_process_to_another_store(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "https://s3.example")
    stack = DemoStack(home=tmp_path / "demo", plan=plan("s3"))
    told = stack.airflow.environment
    endpoint = stack.warehouse.spark_settings["spark.hadoop.fs.s3a.endpoint"]
    assert told["AWS_ENDPOINT_URL"] == told["AWS_ENDPOINT_URL_S3"] == endpoint
    assert endpoint.startswith("http://127.0.0.1:")
    assert "example" not in told[name]


def test_tables_of_both_halves_lie_in_the_bucket_and_keys_in_no_file(tmp_path: Path) -> None:
    stack = DemoStack(home=tmp_path / "demo", plan=plan("s3"))
    assert stack.store.settings.warehouse == stack.warehouse.uri == "s3://demo/epochs"
    assert stack.airflow.environment["NYC_TWIN_WAREHOUSE"] == "s3://demo/twin"
    assert stack.airflow.environment["NYC_STATEMENTS"] == "1"
    key = stack.airflow.environment["AWS_SECRET_ACCESS_KEY"]
    assert not [value for value in stack.warehouse.spark_settings.values() if key in value]


def test_folders_are_the_default_and_change_no_setting(tmp_path: Path) -> None:
    stack = DemoStack(home=tmp_path / "demo", plan=Plan())
    assert isinstance(stack.warehouse, LocalWarehouse)
    assert stack.warehouse.uri == (stack.home / "epochs" / "warehouse").as_uri()
    assert stack.airflow.environment["NYC_TWIN_WAREHOUSE"] == str(stack.home / "twin")
    assert (stack.warehouse.spark_settings, stack.warehouse.environment) == ({}, {})
    assert S3Warehouse.pace < stack.warehouse.pace
