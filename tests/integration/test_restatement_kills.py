"""kill -9 within a restatement: readers have all old or all new rows, and the step repeated ends it."""

from __future__ import annotations

import signal
import subprocess
import sys
from itertools import count
from pathlib import Path

import pytest

from airflow_provider.coordination.service import EpochService, Settings
from airflow_provider.coordination.upkeep.audit import missing_files, stale_reads
from airflow_provider.domain.identifiers import DomainName
from tests.integration import killed_restatement
from tests.integration.killed_restatement import DOMAIN, NEW, OLD, STEPS, committed, values
from tests.services.postgresql import postgresql
from tests.services.stores import empty_store

__all__ = ["postgresql"]  # a fixture of this module

QUICK = {"plan": [1], "run": [7], "publish": [4], "revert": [9]}
"""One moment of each step: what the dead process had done is to be found by the next."""


@pytest.fixture
def settings(store: str, request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    url = empty_store(store, request, tmp_path)
    return Settings(store_url=url, warehouse=f"file://{tmp_path}/warehouse")


def dies(settings: Settings, step: str, number: int) -> bool:
    """Let a process do *step*, killed at its moment *number*; return False if it came to its end before."""
    command = [sys.executable, killed_restatement.__file__, settings.store_url, settings.warehouse, step]
    done = subprocess.run([*command, str(number)], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr[-3000:]
    return done.returncode != 0


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(
    ("store", "everywhere"),
    [
        ("sqlite", False),
        pytest.param("sqlite", True, marks=pytest.mark.slow),
        pytest.param("postgresql", False, marks=pytest.mark.slow),
    ],
)
def test_a_killed_step_is_ended_by_its_repetition(settings: Settings, step: str, *, everywhere: bool) -> None:
    """R2, R15, R28, R30: each process dies a moment later than the one before, in what that has left."""
    with EpochService.open(settings) as service:
        committed(service)
        for name, earlier in STEPS.items():
            if name == step:
                break
            earlier(service)
        before = values(service)
    after = NEW if step == "publish" else OLD
    assert before == (NEW if step == "revert" else OLD)
    seen = []
    for number in count() if everywhere else QUICK[step]:
        if not dies(settings, step, number):
            assert everywhere
            break
        with EpochService.open(settings) as service:
            seen.append(values(service))
            assert seen[-1] in (before, after), number
            assert not list(stale_reads(service.store, DomainName(DOMAIN))), number
            assert not list(missing_files(service.store, service.formats, DomainName(DOMAIN))), number
    assert seen
    with EpochService.open(settings) as service:
        for name in list(STEPS)[list(STEPS).index(step) :]:
            STEPS[name](service)
            if name == step:
                assert values(service) == after
        assert values(service) == OLD
        commits = [commit.record.change_set for commit in service.store.changes(DomainName(DOMAIN), 0)]
        assert len(commits) == len(set(commits)) == 9 + 2
