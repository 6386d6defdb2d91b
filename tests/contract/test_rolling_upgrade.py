"""Two versions of the package work on one store: the last one of format 1, from its own wheel, and this one."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_provider.domain.records import Key, Kind
from airflow_provider.stores.base import Put
from airflow_provider.stores.factory import check_schema, upgrade_schema
from airflow_provider.stores.schema_status import Fit
from airflow_provider.stores.zookeeper.address import parsed
from airflow_provider.stores.zookeeper.store import ZookeeperStore
from airflow_provider.testing.store_cases.backend import commit, write
from airflow_provider.testing.store_cases.samples import bare
from tests.contract import tables_worker, versions_worker
from tests.contract.tables_worker import KEYS
from tests.servers.zookeeper import ZookeeperServer

pytestmark = pytest.mark.thorough

OLDER = Path(__file__).parents[1] / "recorded" / "package_format_1.tar.xz"


class Process:
    """A worker in a process of its own."""

    def __init__(self, package: Path, *arguments: str, program: str = versions_worker.__file__) -> None:
        self.program = subprocess.Popen(
            [sys.executable, program, *arguments],
            cwd=package,
            env={"PYTHONPATH": str(package), "PATH": "/usr/bin:/bin", "HOME": str(package)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def said(self, *call: Any) -> dict[str, Any]:
        """What the worker answers."""
        assert self.program.stdin is not None
        assert self.program.stdout is not None
        self.program.stdin.write(json.dumps(call) + "\n")
        self.program.stdin.flush()
        line = self.program.stdout.readline()
        assert line, self.ended()
        found: dict[str, Any] = json.loads(line)
        return found

    def __call__(self, *call: Any) -> Any:
        found = self.said(*call)
        assert "error" not in found, found
        return found["found"]

    def ended(self) -> str:
        """End it; return what it complained about."""
        return self.program.communicate()[1]


@pytest.fixture(scope="module")
def older_package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The older version, unpacked."""
    place = tmp_path_factory.mktemp("older")
    with tarfile.open(OLDER) as archive:
        archive.extractall(place, filter="data")
    return place


@pytest.fixture
def place(tmp_path: Path) -> tuple[str, str]:
    """Where store and warehouse are."""
    return f"sqlite:///{tmp_path}/store.db", f"file://{tmp_path}/warehouse"


@pytest.fixture
def older(older_package: Path, place: tuple[str, str]) -> Iterator[Process]:
    """The older version, which makes the store."""
    process = Process(older_package, *place)
    yield process
    process.ended()


@pytest.fixture
def newer(older: Process, place: tuple[str, str]) -> Iterator[Process]:
    """This version, once the store is there."""
    older("leases")
    process = Process(Path(__file__).parents[2], *place)
    yield process
    process.ended()


def test_hosts_are_upgraded_one_after_the_other(
    older: Process, newer: Process, place: tuple[str, str]
) -> None:
    """R36: both write what both read, until the store's format is raised."""
    url, _ = place
    assert older("run", "first", 1, 1) == 1
    assert newer("run", "first", 2, 2) == 2
    assert older("run", "second", 1, 10) == 3
    assert newer("run", "second", 2, 20) == 4
    assert older("rows", "first") == newer("rows", "first") == [1, 2]
    assert older("rows", "second") == newer("rows", "second") == [10, 20]

    for mine, theirs, number in ((older, newer, 3), (newer, older, 4)):
        token = mine("begin", "first", number)
        mine("write", "first", -1)
        assert theirs("begin", "first", number) == token + 1
        theirs("write", "first", number)
        theirs("heartbeat", "first")
        assert mine.said("heartbeat", "first")["error"] == "Fenced"
        assert mine.said("publish", "first")["error"] == "Fenced"
        theirs("publish", "first")
        assert older("rows", "first") == newer("rows", "first")
        mine("lease", f"reader{number}")
        assert "reader3" in theirs("leases")
    assert older("vacuum") <= newer("vacuum") <= older("vacuum")

    status = check_schema(url)
    assert status is not None
    assert (status.fit, status.format) == (Fit.UPGRADABLE, 1)
    assert older("run", "second", 3, 30) == newer("run", "second", 4, 40) - 1
    upgraded = upgrade_schema(url)
    assert upgraded is not None
    assert upgraded.fit is Fit.CURRENT

    newer("begin", "first", 5)
    newer("write", "first", 5)
    newer("publish", "first")
    assert newer("rows", "first") == [1, 2, 3, 4, 5]
    assert newer("rows", "second") == [10, 20, 30, 40]


def test_both_versions_tell_declarations_apart_alike(
    older: Process, newer: Process, place: tuple[str, str]
) -> None:
    """R7, R36: a declaration is the same one whichever version declares it, and an old one stays old."""
    url, _ = place

    def begin(process: Process, inactive_after: int | None) -> None:
        process("begin", "first", 1, "scheduled", inactive_after)

    for process in (older, newer):
        begin(process, None)
        assert older("declared", "first") == newer("declared", "first") == [1, None, 0]
    begin(newer, 7)
    for process in (older, newer):
        for inactive_after in (None, 7):
            begin(process, inactive_after)
            assert older("declared", "first") == newer("declared", "first") == [2, 7, 1]
    begin(older, 8)
    upgrade_schema(url)
    for inactive_after in (None, 7, 8):
        begin(newer, inactive_after)
        assert newer("declared", "first") == [3, 8, 2]


def test_an_older_version_stops_at_an_unknown_format(
    older: Process, newer: Process, older_package: Path, place: tuple[str, str]
) -> None:
    """R36: also one that was open during the upgrade; it skips nothing, and changes nothing."""
    url, warehouse = place
    older("run", "first", 1, 1)
    upgrade_schema(url)
    reopened = Process(Path(__file__).parents[2], url, warehouse)
    reopened("run", "first", 2, 2)
    for call in (("rows", "first"), ("begin", "first", 2, "again"), ("run", "first", 3, 3)):
        found = older.said(*call)
        assert found["error"] == "StoreIncompatible", found
        assert "upgrade the package" in found["message"]
    assert reopened("rows", "first") == [1, 2]
    assert newer("rows", "first") == [1, 2]
    reopened.ended()
    late = Process(older_package, url, warehouse)
    assert "upgrade the package on this host" in late.ended()


def moved(key: Key, job: str) -> Put:
    return Put(key, replace(bare(Kind.TABLE), job=job))


def test_an_older_version_reads_tables_that_this_one_writes_on_zookeeper(
    older_package: Path, zookeeper: ZookeeperServer
) -> None:
    """R3, R36: format 1 reads tables from checkpoints, which this version neither makes nor reads."""
    url = zookeeper.url()
    older = Process(older_package, url, program=tables_worker.__file__)
    older("jobs")
    with ZookeeperStore(parsed(url)).open() as newer:
        write(newer, *(moved(key, "first") for key in KEYS), number=commit())
        assert older("jobs") == {"first": 40}
        assert older("checkpoint")
        assert older("jobs") == {"first": 40}
        write(newer, moved(KEYS[1], "numbered"), number=commit())
        assert older("jobs") == {"first": 39, "numbered": 1}
        write(newer, moved(KEYS[2], "unnumbered"))
        assert older("jobs") == {"first": 38, "numbered": 1, "unnumbered": 1}
        older("move", 3, "older")
        found = newer.read(KEYS[0].domain, KEYS).records
        assert found[KEYS[3]].record.job == "older"

        older("begin_checkpoint")
        write(newer, moved(KEYS[4], "meanwhile"), number=commit())
        assert not older("end_checkpoint")
        jobs = {"first": 36, "numbered": 1, "unnumbered": 1, "older": 1, "meanwhile": 1}
        assert older("jobs") == jobs
        found = newer.read(KEYS[0].domain, KEYS).records
        assert [found[key].record.job for key in KEYS[:5]] == ["first", *list(jobs)[1:]]
    older.ended()
