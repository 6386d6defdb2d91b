"""The demo's own servers: started in its home, broken while epochs are in publish, and gone with it."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import pyarrow as pa
import pytest

from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.identifiers import DomainName, JobName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.topology import Job, Table
from airflow_provider.testing.arrow_attempts import write_rows
from demo.faults import Aim, FaultInjector
from demo.figures import count_reads
from demo.processes import ProcessFailedError, end_owned_by, owned_by
from demo.published import published
from demo.readers.epochs import is_retryable
from demo.readers.reading import Read, ReaderSettings, ReadLog, Seen
from demo.source import Days
from demo.stores import STORES, MissingProgramError, ServerStore

ORIGIN = datetime(2013, 2, 8, tzinfo=UTC)
JOB = Job("weather", outputs=[Table("weather", "nyc")], cadence="@hourly", origin=ORIGIN)
SERVERS = sorted(name for name, store in STORES.items() if issubclass(store, ServerStore))


def prepared(name: str, home: Path) -> ServerStore:
    store = STORES[name](home=home, warehouse=(home / "epochs" / "warehouse").as_uri())
    assert isinstance(store, ServerStore)
    try:
        store.require()
    except MissingProgramError as error:
        pytest.skip(str(error))
    return store


@pytest.fixture(scope="module", params=SERVERS)
def started(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerStore]:
    """A server in a home that only this user may enter, as it may be in a checkout in a user's own folder."""
    parent = tmp_path_factory.mktemp("closed")
    parent.chmod(stat.S_IRWXU)
    store = prepared(request.param, parent / "demo")
    try:
        store.start()
        yield store
    finally:
        store.stop()
        end_owned_by(store.home)


@pytest.fixture
def store(started: ServerStore) -> ServerStore:
    """The server, running, whatever the test before did to it."""
    try:
        started.check()
    except ProcessFailedError:
        started.start()
    return started


@pytest.fixture
def home(started: ServerStore) -> Path:
    return started.home


def publish(service: EpochService, number: int) -> None:
    """Compute one hour as a program does, without Spark."""
    start = ORIGIN + timedelta(hours=number)
    interval = Interval(start, start + timedelta(hours=1))
    attempt = service.begin(JOB, interval, Owner(dag_id="test", run_id=str(number)))
    assert isinstance(attempt, Attempt)
    write_rows(service, attempt, "weather", pa.table({"hour": [number]}))
    service.complete(attempt)
    service.publish(attempt)


def test_server_keeps_published_epochs_and_leaves_no_process(store: ServerStore, home: Path) -> None:
    with EpochService.open(store.settings) as service:
        publish(service, 0)
    before = published(store.settings, "nyc")
    running = owned_by(home)
    assert running
    children = [child for process in running for child in process.children(recursive=True)]
    store.stop()
    _, alive = psutil.wait_procs([*running, *children], timeout=30)
    assert alive == []
    again = prepared(store.name, home)
    try:
        again.start()
        assert published(again.settings, "nyc") == before
    finally:
        again.stop()
    assert owned_by(home) == []


def test_a_server_that_ends_by_itself_is_named_and_a_broken_one_is_not(
    store: ServerStore, home: Path
) -> None:
    store.check()
    store.strike()
    store.check()
    store.repair()
    store.check()
    end_owned_by(home)
    with pytest.raises(ProcessFailedError, match=store.name):
        store.check()


def read_once(service: EpochService, folder: Path) -> Read:
    """Read the newest cut and write it down, as the demo's readers do."""
    settings = ReaderSettings(
        days=Days.through_blizzard(1), totals=folder, reads=folder, warehouse=str(folder)
    )

    def read() -> Seen:
        cut = service.cuts.cut("nyc", ["weather"])
        return Seen(barrier=cut.barrier, tables=1, csn=cut.csn)

    return ReadLog(settings, family="epochs", reader="adhoc-1").perform(read, is_retryable=is_retryable)


def test_strikes_hit_publishes_after_the_first_read_and_lose_nothing(
    store: ServerStore, home: Path, tmp_path: Path
) -> None:
    settings, told = store.settings, []
    aim = Aim(
        domain=DomainName("nyc"),
        jobs=[JobName("weather")],
        ready=lambda: count_reads(tmp_path, "epochs").reads > 0,
        wanted=2,
        most=40,
        calm_s=0,
    )
    injector = FaultInjector(store=store, aim=aim, log=home / "faults.jsonl", say=told.append)
    before = published(settings, "nyc")
    first = hours = 100
    with EpochService.open(settings) as service:
        publish(service, hours)
        injector.start()
        for _ in range(8):
            hours += 1
            publish(service, hours)
        assert injector.strikes == 0, "no reader has read yet"
        read = read_once(service, tmp_path)
        while not injector.join(0.1):
            hours += 1
            publish(service, hours)
    injector.check()
    print("\n".join(told))
    assert injector.counted == 2
    after = published(settings, "nyc")
    assert after.epochs - before.epochs == after.commits - before.commits == hours + 1 - first
    lines = [json.loads(line) for line in (home / "faults.jsonl").read_text().splitlines()]
    assert len(lines) == len(told) == injector.strikes
    assert sum(line["in_publish"] for line in lines) == 2
    assert datetime.fromisoformat(lines[0]["struck_at"]).timestamp() > read.at


def test_a_stopped_injector_leaves_the_server_running(store: ServerStore, home: Path) -> None:
    aim = Aim(domain=DomainName("nyc"), jobs=[JobName("weather")], ready=lambda: True, wanted=1, most=1)
    injector = FaultInjector(store=store, aim=aim, log=home / "faults.jsonl", say=print)
    injector.start()
    injector.stop()
    injector.check()
    assert injector.strikes == 0
    store.check()
