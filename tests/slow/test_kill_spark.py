"""kill -9 in every window of an epoch: each epoch is published once, and no reader sees anything else.

One process computes epoch after epoch. In each epoch it is stopped in a window and something is killed; the next
process, a retry of the same task, takes the epoch over, and is killed in the epoch after it.

Only these: ``make test-slow ARGS='-k kill_spark'``. KILLS_PER_WINDOW=1 before it kills each target once in each window
instead of four times.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pyarrow.compute as pc
import pytest

from airflow_provider.coordination.service import EpochService, Settings
from airflow_provider.domain.errors import NotReady, RetryableError, UnknownName
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.topology import Job
from airflow_provider.spark.launch_spec import VARIABLE, Batch, LaunchSpec
from demo.spark_connect import SparkConnectServer, spark_home, write_configuration
from tests.airflow_runs import epochs_connection
from tests.servers.ports import free_port
from tests.slow.kill_plan import JOB, START, span

KILLS = int(os.environ.get("KILLS_PER_WINDOW", "4"))
"""Kills of each target in each window."""

WINDOWS: dict[str, tuple[str, str]] = {
    "in begin": ("before begin", "after begin"),
    "while writing": ("in a task of hourly", "in a task of totals"),
    "after PROCESSED": ("after PROCESSED hourly", "after PROCESSED totals"),
    "after WRITTEN": ("after WRITTEN totals", "after WRITTEN"),
    "in publish": ("before publish", "after publish"),
}
"""For each window the places to stop at, taken in turn."""

PROGRAM = Path(__file__).with_name("kill_job.py")
TIMEOUT_S = 1800.0
"""Longer than the busiest machine needs: a stop that is never reached is to end the test, not to hang it."""


@dataclass
class Hammer:
    """Reads both tables all the time and compares every epoch in the cut with what it must hold."""

    settings: Settings
    reads: int = 0
    cuts: set[int] = field(default_factory=set)
    wrong: list[str] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Hammer:
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def wait_for_a_read(self) -> None:
        """Wait until there is something to read, and it was read."""
        deadline = time.monotonic() + TIMEOUT_S
        while not self.reads:
            assert time.monotonic() < deadline, f"nothing was read: {self.wrong}"
            time.sleep(0.05)

    def _run(self) -> None:
        with EpochService.open(self.settings) as service:
            while not self._stop.wait(0.3):
                try:
                    self._read(service)
                except (NotReady, UnknownName) as error:
                    if self.reads:
                        self.wrong.append(f"what was there is gone: {error}")
                except RetryableError as error:
                    self.wrong.append(f"read failed: {error}")
                except Exception as error:  # noqa: BLE001  (whatever a reader sees is what is asked)
                    self.wrong.append(f"{type(error).__name__}: {error}")

    def _read(self, service: EpochService) -> None:
        cut = service.cuts.cut("default", ["hourly", "totals"])
        epochs = (cut.barrier - START) // timedelta(hours=1)
        expected = {hour: 10 + hour for hour in range(epochs)}
        rows = service.cuts.read(cut, "hourly")["hour"]
        counted = {count["values"]: count["counts"] for count in pc.value_counts(rows).to_pylist()}
        totals = service.cuts.read(cut, "totals").to_pylist()
        told = {row["hour"]: row["rows"] for row in totals}
        if counted != expected or told != expected or len(totals) != epochs:
            self.wrong.append(f"CSN {cut.csn}, barrier {cut.barrier}: rows {counted}, totals {totals}")
        self.reads += 1
        self.cuts.add(cut.csn)


@dataclass
class Task:
    """The Airflow task: a process for each try, all of one owner.

    :param command: what each try runs. :param environment: of each try.
    :param is_airflows: whether the process executes Airflow's operator; else it is the program, to which the epochs are
        handed over. :param job: what it computes.
    """

    folder: Path
    settings: Settings
    command: list[str]
    environment: dict[str, str]
    epochs: int
    is_airflows: bool = False
    job: Job = JOB
    tries: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self) -> None:
        """Start the next try."""
        number = len(self.tries) + 1
        environment = {**self.environment, "KILL_TRY": str(number)}
        if not self.is_airflows:
            owner = Owner(dag_id="dag", run_id="run", try_number=number)
            batch = Batch(interval=span(self.epochs), owner=owner)
            path = LaunchSpec(settings=self.settings, job=self.job, batch=batch).write(self.folder)
            environment[VARIABLE] = str(path)
        (self.folder / "current").write_text(str(number))
        with (self.folder / f"log-{number}").open("wb") as log:
            process = subprocess.Popen(
                [*self.command, str(PROGRAM), *(["task", str(self.epochs)] if self.is_airflows else [])],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.tries.append(process)

    @property
    def process(self) -> subprocess.Popen[bytes]:
        return self.tries[-1]

    @property
    def python(self) -> int:
        """Id of the newest try's Python process."""
        return int((self.folder / f"driver-{len(self.tries)}").read_text())

    def wait_until_reached(self, epoch: int) -> None:
        """Wait until the newest try stands where the plan stops it in *epoch*."""
        deadline = time.monotonic() + TIMEOUT_S
        while not (self.folder / f"reached-{epoch}").exists():
            assert self.process.poll() is None, (
                f"try {len(self.tries)} ended before epoch {epoch}: {self.log()}"
            )
            assert time.monotonic() < deadline, f"epoch {epoch} was not reached: {self.log()}"
            time.sleep(0.05)

    def log(self) -> str:
        return (self.folder / f"log-{len(self.tries)}").read_text(errors="replace")[-3000:]

    def end(self) -> None:
        """End what is left of every try, zombies of Spark's workers among it."""
        for process in self.tries:
            for number in _session(process.pid):
                os.kill(number, signal.SIGKILL)
            process.wait()


def _session(leader: int) -> Iterator[int]:
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if os.getsid(int(folder.name)) == leader:
                yield int(folder.name)
        except ProcessLookupError:
            continue


def kill_through(task: Task, plan: list[str], kill: Callable[[], None], hammer: Hammer) -> None:
    """Let *task* compute an epoch for each stop of *plan*, killing in each; then let it finish."""
    (task.folder / "plan.json").write_text(json.dumps(plan))
    task.start()
    for epoch in range(len(plan)):
        task.wait_until_reached(epoch)
        kill()
        (task.folder / "current").write_text("nobody")
        (task.folder / f"go-{epoch}").touch()
        task.start()
    assert task.process.wait(TIMEOUT_S) == 0, task.log()
    time.sleep(1.0)
    for process in task.tries:
        assert process.poll() is not None or process.wait(TIMEOUT_S) is not None
    assert hammer.wrong == []


def check_commits(settings: Settings, epochs: int, *, together: bool = False) -> None:
    """Each epoch was published once, in its first revision, and both tables hold exactly its rows."""
    with EpochService.open(settings) as service:
        commits = service.store.changes(JOB.domain, 0)
        assert [commit.csn for commit in commits] == ([1] if together else list(range(1, epochs + 1)))
        members = [member for commit in commits for member in commit.record.members]
        assert [member.interval.start for member in members] == [
            START + timedelta(hours=hour) for hour in range(epochs)
        ]
        assert {member.revision for member in members} == {1}
        cut = service.cuts.cut("default", ["hourly", "totals"])
        assert service.cuts.read(cut, "hourly").num_rows == sum(10 + hour for hour in range(epochs))
        assert service.cuts.read(cut, "totals").num_rows == epochs


def run(
    task: Task,
    kill: Callable[[], None],
    capsys: pytest.CaptureFixture[str],
    target: str,
    places: Mapping[str, tuple[str, str]] = WINDOWS,
) -> None:
    """Kill in each window, check, and print how often."""
    windows = [(window, stops[turn % 2]) for turn in range(KILLS) for window, stops in places.items()]
    started = time.monotonic()
    with Hammer(task.settings) as hammer:
        kill_through(task, [place for _, place in windows], kill, hammer)
        check_commits(task.settings, len(windows))
    counts = Counter(window for window, _ in windows)
    with capsys.disabled():
        print(
            f"\nkill -9 of {target}: {', '.join(f'{count} {window}' for window, count in counts.items())}; "
            f"{len(windows)} epochs published once, {hammer.reads} reads of {len(hammer.cuts)} cuts, "
            f"{len(hammer.wrong)} wrong; {time.monotonic() - started:.0f} s"
        )
    assert hammer.reads > 0


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    write_configuration(tmp_path / "conf")
    return {
        **os.environ,
        "KILL_FOLDER": str(tmp_path),
        "SPARK_CONF_DIR": str(tmp_path / "conf"),
        "SPARK_HOME": str(spark_home()),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(store_url=f"sqlite:///{tmp_path}/store.db", warehouse=f"{tmp_path}/warehouse")


@pytest.fixture
def connect_server(tmp_path: Path, environment: dict[str, str]) -> Iterator[SparkConnectServer]:
    server = SparkConnectServer(home=tmp_path, port=free_port(), environment=environment)
    server.start()
    try:
        server.wait_until_ready(timeout_s=TIMEOUT_S)
        yield server
    finally:
        server.stop()


@pytest.fixture
def submitted(tmp_path: Path, settings: Settings, environment: dict[str, str]) -> Iterator[Task]:
    """Tries by spark-submit; the process is the JVM, its child the Python driver."""
    command = [str(spark_home() / "bin/spark-submit"), "--master", "local[2]"]
    task = Task(tmp_path, settings, command, environment, epochs=len(WINDOWS) * KILLS)
    yield task
    task.end()


@pytest.fixture
def connected(
    tmp_path: Path, settings: Settings, environment: dict[str, str], connect_server: SparkConnectServer
) -> Iterator[Task]:
    """Tries that are clients of a server that stays up."""
    client = {**environment, "SPARK_REMOTE": connect_server.url}
    task = Task(tmp_path, settings, [sys.executable], client, epochs=len(WINDOWS) * KILLS)
    yield task
    task.end()


@pytest.fixture
def airflows(tmp_path: Path, connected: Task, connect_server: SparkConnectServer) -> Task:
    """The same, executed as Airflow does: ``@task.epoch`` with its connections."""
    spark = {"conn_type": "spark_connect", "host": "sc://127.0.0.1", "port": connect_server.port}
    connected.is_airflows = True
    connected.environment["AIRFLOW_CONN_EPOCHS_DEFAULT"] = epochs_connection(tmp_path)
    connected.environment["AIRFLOW_CONN_SPARK_CONNECT_DEFAULT"] = json.dumps(spark)
    return connected


def test_the_drivers_jvm_alone(submitted: Task, capsys: pytest.CaptureFixture[str]) -> None:
    """Its Python lives on and goes on, beside the retry that has taken its epoch."""

    def kill() -> None:
        submitted.process.kill()
        submitted.process.wait()

    run(submitted, kill, capsys, "the driver's JVM alone")


def test_the_drivers_python_alone(submitted: Task, capsys: pytest.CaptureFixture[str]) -> None:
    def kill() -> None:
        os.kill(submitted.python, signal.SIGKILL)
        submitted.process.wait(TIMEOUT_S)

    run(submitted, kill, capsys, "the driver's Python alone")


def test_the_shared_connect_server(
    connected: Task, connect_server: SparkConnectServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """The task's own process lives on; the server is brought back before the retry."""

    def kill() -> None:
        connect_server.process.kill()
        connect_server.start()
        connect_server.wait_until_ready(timeout_s=TIMEOUT_S)

    run(connected, kill, capsys, "the shared Connect server")


def test_the_task(airflows: Task, capsys: pytest.CaptureFixture[str]) -> None:
    """The server goes on with the requests of the task, and no process hears of them."""

    def kill() -> None:
        airflows.process.kill()
        airflows.process.wait()

    run(airflows, kill, capsys, "the task")


@pytest.mark.parametrize("stop", WINDOWS["in publish"])
def test_the_task_that_commits_its_epochs_together(
    airflows: Task, stop: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """R27: readers see none of them before the commit, and all of them after; complete ones are not computed again."""
    places = [place for window, stops in WINDOWS.items() if window != "in publish" for place in stops]
    airflows.environment["KILL_COMMIT"] = "together"
    airflows.epochs = len(places)

    def kill() -> None:
        airflows.process.kill()
        airflows.process.wait()

    with Hammer(airflows.settings) as hammer:
        kill_through(airflows, [*places, stop], kill, hammer)
        check_commits(airflows.settings, len(places), together=True)
        hammer.wait_for_a_read()
    with capsys.disabled():
        counts = f"{len(places)} epochs in one commit: {hammer.reads} reads, {len(hammer.wrong)} wrong"
        print(f"\nkill -9 of the task, {counts}")
    assert hammer.wrong == []
    assert hammer.cuts == {1}
