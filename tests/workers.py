"""How the workers of ``pytest -n 2`` share a run: what one of them runs as a whole, and what runs alone.

Each worker is a process with servers of its own. Modules go to whichever worker is free; those that share servers
that take long to start stay in one worker, which begins with them; and a tier that needs the whole machine waits
until nothing else runs. A worker that is killed ends the run: the test that it ran has failed.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from tests.tiers import ORDER_OF_WORKERS, TIERS, Share, Tier

_TOGETHER = ", together"


def tier_of(nodeid: str) -> Tier | None:
    """The tier of a test in ``tests/<tier>/``; None for one elsewhere."""
    folders = nodeid.partition("::")[0].split("/")[:-1]
    return next((TIERS[folder] for folder in folders if folder in TIERS), None)


def whole_of(nodeid: str) -> str:
    """Name what a test is run together with, in one worker: its tier, modules with the same servers, or its module."""
    tier, module = tier_of(nodeid), nodeid.partition("::")[0]
    if tier is not None and Path(module).stem in tier.together:
        return tier.name + _TOGETHER
    return module if tier is None or tier.share is Share.MODULES else tier.name


def in_turn(tests: Sequence[tuple[str, str]]) -> list[int]:
    """The order in which workers are given tests, by their positions: the rest is short when the work comes to its end.

    First what is run together, then by tier, in each the modules with the most tests first.

    :param tests: id and tier of each.
    """
    wholes = [whole_of(nodeid) for nodeid, _ in tests]
    sizes = Counter(wholes)

    def turn(position: int) -> tuple[bool, int, int]:
        whole, tier = wholes[position], tests[position][1]
        return not whole.endswith(_TOGETHER), ORDER_OF_WORKERS.index(tier), -sizes[whole]

    return sorted(range(len(tests)), key=turn)


class TierScheduling(LoadScopeScheduling):  # type: ignore[misc, unused-ignore]
    """Gives workers one whole after another, in the order of the collection.

    A worker holds its last test back until it gets more or is told that there is no more. So a worker with one test
    left is one that waits.
    """

    def _split_scope(self, nodeid: str) -> str:
        return whole_of(nodeid)

    def _assign_work_unit(self, node: Any) -> None:
        others = [other for other in self.nodes if other is not node]
        tier = TIERS.get(next(iter(self.workqueue)))
        busy = any(self._pending_of(self.assigned_work[other]) > 1 for other in others)
        if busy and tier is not None and tier.share is Share.ALONE:
            return  # another worker takes it, when it has done what it has
        super()._assign_work_unit(node)
        if not self.workqueue:
            for other in others:
                other.shutdown()


class Sharing:
    """Gives the run its scheduling, and ends all workers when one was killed, or after the failures that ``-x`` allows.

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

    def pytest_testnodedown(self, error: object | None) -> None:
        """End the others when a worker was killed: no worker runs what it had to run."""
        if error is not None:
            self.end.touch()

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self) -> None:
        if not self.is_worker and self.session.shouldfail:
            self.end.touch()

    def pytest_runtest_logfinish(self) -> None:
        if self.is_worker and self.end.exists():
            self.session.shouldstop = "another worker was killed, or its test failed"

    def pytest_sessionfinish(self) -> None:
        if not self.is_worker:
            shutil.rmtree(self.end.parent, ignore_errors=True)
