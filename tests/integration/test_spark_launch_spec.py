"""The launch spec of a Spark program arrives as it was given, once, and no other program sees it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from airflow_provider.coordination.service import EpochService, Settings
from airflow_provider.domain.completeness import marker, min_files
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.errors import InvalidInput, StoreIncompatible
from airflow_provider.domain.interval import Cadence, Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.source_bounds import (
    BoundFile,
    FileSource,
    IcebergSource,
    PostgresSource,
    SourceBounds,
    Span,
)
from airflow_provider.domain.topology import Job, Table, previous, state, window
from airflow_provider.spark import launch_spec
from airflow_provider.spark.launch_spec import VARIABLE, Batch, LaunchSpec
from airflow_provider.stores.declarations import encoded
from demo.spark_connect import spark_home, write_configuration

pytestmark = pytest.mark.usefixtures("nothing_handed_over")

MIDNIGHT = datetime(2013, 2, 8, tzinfo=UTC)
HOUR = Interval(MIDNIGHT, MIDNIGHT + timedelta(hours=1))
OUT = Table("ünïcode out", partition_by=("origin",), sort_by=("at",))
JOB = Job(
    "job",
    inputs=[
        FileSource("landing", location="/landing/{start:%Y}/*.csv", complete=[marker(), min_files(2)]),
        IcebergSource("prices", "lake.market.prices", reads="state"),
        PostgresSource(
            "orders",
            "public.orders",
            connection="shop",
            id_column="id",
            transaction_key="tx",
            late="revision",
        ),
        state(Table("airports"), as_of=timedelta(hours=2)),
        window(Table("weather"), timedelta(hours=6)),
        previous(OUT),
    ],
    outputs=[OUT],
    cadence=Cadence("0 * * * *", "America/New_York"),
    origin=MIDNIGHT,
)
OWNER = Owner(dag_id="dag", run_id="scheduled__2013-02-08T00:00:00+00:00", generation=2, try_number=3)
SETTINGS = Settings(
    store_url="sqlite:////tmp/of/nobody.db",
    warehouse="file:///data/warehouse",
    connections={"shop": "postgresql+psycopg://me:pw@db/shop"},
)


def attempt_at(service: EpochService) -> Attempt:
    orders = PostgresSource("orders", "public.orders", connection="shop", id_column="id")
    job = Job(
        "simple",
        inputs=[FileSource("landing", "/landing", late="ignore"), orders],
        outputs=[OUT],
        cadence="@hourly",
    )
    bounds = SourceBounds(source="landing", files=(BoundFile(uri="file:///a", size_bytes=3, modified=4),))
    ids = SourceBounds(source="orders", span=Span(low=None, high=2**63 - 1, rows=0))
    attempt = service.begin(job, HOUR, OWNER, sources={"landing": bounds, "orders": ids})
    assert isinstance(attempt, Attempt)
    return attempt


def test_it_arrives_as_it_was_given_and_once(
    service: EpochService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for given in (
        LaunchSpec(settings=SETTINGS, job=JOB, batch=Batch(interval=HOUR, owner=OWNER)),
        LaunchSpec(settings=SETTINGS, job=JOB, attempt=attempt_at(service), publishes=False),
    ):
        launch_spec.received.cache_clear()
        path = given.write(tmp_path)
        assert path.stat().st_mode & 0o777 == 0o600
        monkeypatch.setenv(VARIABLE, str(path))
        received = launch_spec.received()
        assert received is not None
        assert encoded(received.job) == encoded(given.job)
        assert replace(received, job=given.job) == given
        assert not path.exists()
        assert VARIABLE not in os.environ
        assert launch_spec.received() is received
        assert "nobody.db" not in repr(received)


def test_without_the_variable_nothing_was_handed_over() -> None:
    assert launch_spec.received() is None


@pytest.mark.parametrize(
    ("spoil", "error", "words"),
    [
        (lambda path: path.unlink(), InvalidInput, "No such file"),
        (lambda path: path.chmod(0o640), InvalidInput, "0640"),
        (lambda path: path.write_text("{"), InvalidInput, "launch spec of this package"),
        (lambda path: path.write_bytes(b"\xff\xfe"), InvalidInput, "launch spec of this package"),
        (lambda path: path.write_text('{"format": 3}'), InvalidInput, "missing required field"),
        (lambda path: path.write_text('{"format": 2}'), StoreIncompatible, "same version of the package"),
    ],
)
def test_invalid_launch_spec_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoil: object, error: type[Exception], words: str
) -> None:
    path = LaunchSpec(settings=SETTINGS, job=JOB, batch=Batch(interval=HOUR, owner=OWNER)).write(tmp_path)
    assert callable(spoil)
    spoil(path)
    monkeypatch.setenv(VARIABLE, str(path))
    with pytest.raises(error, match=words) as refused:
        launch_spec.received()
    assert "nobody.db" not in str(refused.value)


def test_yarn_delivers_a_file_that_stays_for_yarn_to_remove(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name without a folder, in the container's; YARN makes its copy 0500."""
    given = LaunchSpec(settings=SETTINGS, job=JOB, batch=Batch(interval=HOUR, owner=OWNER))
    path = given.write(tmp_path)
    path.chmod(0o500)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(VARIABLE, path.name)
    monkeypatch.setenv("CONTAINER_ID", "container_e17_1410901177871_0002_01_000001")
    received = launch_spec.received()
    assert received is not None
    assert received.settings == SETTINGS
    assert path.exists()


@pytest.mark.parametrize(
    ("container", "mode", "words"),
    [
        ("container_e17_1410901177871_0001_02_000001", 0o500, "CONTAINER_ID.*02_000001"),
        ("container_1410901177871_0001_11_000001", 0o500, "CONTAINER_ID.*11_000001"),
        (None, 0o500, "CONTAINER_ID"),
        ("container_1410901177871_0002_01_000001", 0o540, "0540"),
        ("container_1410901177871_0002_01_000001", 0o504, "0504"),
    ],
)
def test_second_driver_and_a_file_for_others_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, container: str | None, mode: int, words: str
) -> None:
    """R10: a second driver has the token of the first one, which may still run."""
    path = LaunchSpec(settings=SETTINGS, job=JOB, batch=Batch(interval=HOUR, owner=OWNER)).write(tmp_path)
    path.chmod(mode)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(VARIABLE, path.name)
    monkeypatch.delenv("CONTAINER_ID", raising=False)
    if container is not None:
        monkeypatch.setenv("CONTAINER_ID", container)
    with pytest.raises(InvalidInput, match=words) as refused:
        launch_spec.received()
    assert "nobody.db" not in str(refused.value)


PASSWORD = "s3cr3t-p4ssw0rd"  # noqa: S105  (what the test looks for)

PROGRAM = f"""
import json, sys, time
from pathlib import Path
from pyspark.sql import SparkSession
from airflow_provider.spark.epoch_run import epoch_run
from airflow_provider.stores.factory import redacted

spark = SparkSession.builder.getOrCreate()
try:
    with epoch_run(spark=spark) as epoch:
        epoch.write("t", spark.range(10).repartition(2))
except Exception as error:
    print("ended:", error)
from airflow_provider.spark import launch_spec
assert {PASSWORD[::-1]!r}[::-1] in launch_spec.received().settings.store_url
seen = dict(spark.sparkContext.getConf().getAll())
seen |= {{row.key: row.value for row in spark.sql("set -v").collect()}}
Path(sys.argv[1]).write_text(json.dumps(seen, default=str))
spark.range(4).mapInArrow(lambda batches: batches, "id bigint").count()
print("looking", flush=True)
while not Path(sys.argv[1] + ".enough").exists():
    time.sleep(0.1)
"""


def test_a_password_is_in_no_argument_setting_environment_or_log(tmp_path: Path) -> None:
    """The store is one that cannot be opened, so that its URL has every reason to be in an error."""
    settings = Settings(
        store_url=f"postgresql+psycopg://someone:{PASSWORD}@127.0.0.1:9/epochs",
        warehouse=f"{tmp_path}/warehouse",
        connections={"shop": f"postgresql+psycopg://someone:{PASSWORD}@127.0.0.1:9/shop"},
    )
    job = Job("job", outputs=[Table("t")], cadence="@hourly")
    path = LaunchSpec(settings=settings, job=job, batch=Batch(interval=HOUR, owner=OWNER)).write(tmp_path)
    (tmp_path / "program.py").write_text(PROGRAM)
    write_configuration(tmp_path / "conf")
    logs, seen = tmp_path / "logs", tmp_path / "seen.json"
    environment = {
        **os.environ,
        VARIABLE: str(path),
        "SPARK_CONF_DIR": str(tmp_path / "conf"),
        "SPARK_HOME": str(spark_home()),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    submit = [
        str(spark_home() / "bin/spark-submit"),
        "--master",
        "local[2]",
        "--conf",
        "spark.ui.enabled=true",
    ]
    with (
        logs.open("w") as log,
        subprocess.Popen(
            [*submit, "--conf", "spark.ui.port=0", str(tmp_path / "program.py"), str(seen)],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        ) as process,
    ):
        try:
            while "looking" not in logs.read_text():
                assert process.poll() is None, logs.read_text()
                time.sleep(0.2)
            arguments, variables = processes_of(process.pid)
        finally:
            Path(f"{seen}.enough").touch()
            process.wait()
    assert process.returncode == 0, logs.read_text()
    assert len(arguments) >= 2, "the JVM and the Python driver"
    assert "ended:" in logs.read_text()
    for name, shown in {
        "arguments": json.dumps(arguments),
        "environment": json.dumps(variables),
        "settings": seen.read_text(),
        "log": logs.read_text(),
    }.items():
        assert PASSWORD not in shown, name
    assert not path.exists()


def processes_of(session: int) -> tuple[list[str], list[str]]:
    """Arguments and environments of all processes of a session."""
    arguments, variables = [], []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if os.getsid(int(folder.name)) == session:
                arguments.append((folder / "cmdline").read_bytes().decode(errors="replace"))
                variables.append((folder / "environ").read_bytes().decode(errors="replace"))
        except (OSError, ProcessLookupError):
            continue
    return arguments, variables
