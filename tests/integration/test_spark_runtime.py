"""Iceberg's Spark runtime: a session is asked for it once, and other readers take over where it is of no use."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import pytest
from pyspark.errors.exceptions.connect import SparkConnectGrpcException
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from airflow_provider.spark import runtime
from airflow_provider.tables.cut_files import CutFile


def test_a_missing_runtime_is_no_error_in_the_log(
    connect_session: SparkSession, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Airflow's set-up of logs in a task turns pyspark's on."""
    monkeypatch.setattr(runtime, "RUNTIME", "no-such-format")
    monkeypatch.setattr(runtime, "_found", WeakKeyDictionary())
    monkeypatch.setattr(PySparkLogger.getLogger("pyspark.sql.connect.logging"), "disabled", False)
    assert not runtime.opens(connect_session, "file")
    assert caplog.text == ""
    with pytest.raises(SparkConnectGrpcException):
        _ = connect_session.read.format("no-such-format").load("/nowhere").schema
    assert "GRPC Error received" in caplog.text, "other errors are logged as before"


@pytest.mark.usefixtures("runtime_jar")
def test_tables_of_a_scheme_without_a_file_system_are_left_to_other_readers(
    spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    assert runtime.opens(spark, "epochs-void")
    cut_file = CutFile(
        uri="epochs-void://b/t/metadata/v1.metadata.json", snapshot_id=1, rows=0, files=0, metadata={}
    )
    assert runtime.cut_rows(spark, cut_file, spark.range(1).schema) is None
    assert not runtime.opens(spark, "epochs-void")
    assert "Iceberg's runtime cannot open tables at epochs-void://" in caplog.text
