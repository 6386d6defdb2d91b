"""How the workers of ``pytest -n 2`` share a run: what one of them runs as a whole, and what runs alone.

Each worker is a process with servers of its own. Modules go to whichever worker is free; a tier whose tests share
servers that take long to start stays in one worker, which begins with it; and a tier that needs the whole machine
waits until nothing else runs.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from tests.tiers import TIERS, Share, Tier


def tier_of(nodeid: str) -> Tier | None:
    """The tier of a test in ``tests/<tier>/``; None for one elsewhere."""
    folders = nodeid.partition("::")[0].split("/")[:-1]
    return next((TIERS[folder] for folder in folders if folder in TIERS), None)


def whole_of(nodeid: str) -> str:
    """Name what a test is run together with, in one worker: its tier or its module."""
    tier = tier_of(nodeid)
    if tier is None or tier.share is Share.MODULES:
        return nodeid.partition("::")[0]
    return tier.name


class TierScheduling(LoadScopeScheduling):  # type: ignore[misc, unused-ignore]
    """Gives workers one whole after another, in the order of the collection.

    A worker holds its last test back until it gets more or is told that there is no more. So a worker with one test
    left is one that waits.
    """

    def _split_scope(self, nodeid: str) -> str:
        return whole_of(nodeid)

    def _assign_work_unit(self, node: Any) -> None:
        others = [one for one in self.nodes if one is not node]
        tier = TIERS.get(next(iter(self.workqueue)))
        busy = any(self._pending_of(self.assigned_work[one]) > 1 for one in others)
        if busy and tier is not None and tier.share is Share.ALONE:
            return  # another worker takes it, when it has done what it has
        super()._assign_work_unit(node)
        if not self.workqueue:
            for one in others:
                one.shutdown()


class Sharing:
    """Gives the run its scheduling, and ends all workers after the failures that ``-x`` or ``--maxfail`` allow.

    By itself a worker would first do all that it was given, which may be a whole tier. It is told by a file.
    """

    def __init__(self, session: pytest.Session) -> None:
        self.session = session
        worker: dict[str, Any] = getattr(session.config, "workerinput", {})
        self.is_worker = bool(worker)
        self.end = Path(worker["end"] if worker else tempfile.mkdtemp(prefix="epochs-tests-run-")) / "end"

    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> TierScheduling:
        """Share by tiers and modules, in their order."""
        config.option.loadscopereorder = False
        return TierScheduling(config, log)

    def pytest_configure_node(self, node: Any) -> None:
        """Tell a new worker where the file would be."""
        node.workerinput["end"] = str(self.end.parent)

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self) -> None:
        if not self.is_worker and self.session.shouldfail:
            self.end.touch()

    def pytest_runtest_logfinish(self) -> None:
        if self.is_worker and self.end.exists():
            self.session.shouldstop = "another worker's test failed"

    def pytest_sessionfinish(self) -> None:
        if not self.is_worker:
            shutil.rmtree(self.end.parent, ignore_errors=True)
