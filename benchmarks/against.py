"""``bench.against``: begin and publish of the present tree over those of another commit, by turns in one run."""

from __future__ import annotations

import io
import json
import math
import os
import statistics
import subprocess
import sys
import tarfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Self

import sqlalchemy as sa

from benchmarks import side
from benchmarks.figures import figure, progress
from benchmarks.sizes import Size
from benchmarks.stores import Store, directory

ROOT = Path(__file__).resolve().parents[1]
STORES = ("sqlite", "postgresql", "zookeeper_1")
"""Measured where none is named."""
TABLES = ("memory", "iceberg")
SIDE_BY_SIDE = "side_by_side"
JOBS = 8
"""Side by side."""
TURNS = {"memory": 20, "iceberg": 20, SIDE_BY_SIDE: 9}
"""Of each side."""
EPOCHS = {"memory": 4, "iceberg": 4, SIDE_BY_SIDE: 6}
"""In a turn; of each job where they run side by side."""


AT_MOST = 1.1
"""A figure may be slower by so much."""


class NotComparable(Exception):
    """A side cannot run what is measured."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """One figure. :ivar ratios: the present tree's time over the other commit's, one for each pair of turns."""

    name: str
    before_ms: float
    now_ms: float
    ratios: Sequence[float]

    @property
    def ratio(self) -> float:
        """The median of the pairs' ratios."""
        return statistics.median(self.ratios)

    @property
    def spread(self) -> tuple[float, float]:
        """Ratios between which the true median lies, with 95 % confidence where there are six pairs or more."""
        left_out = left_out_of(len(self.ratios))
        ordered = sorted(self.ratios)
        return ordered[left_out], ordered[-1 - left_out]

    def print(self) -> None:
        low, high = self.spread
        figure(f"bench.against.{self.name}", self.ratio)
        progress(
            f"{self.name}: {self.before_ms:.2f} -> {self.now_ms:.2f} ms, {self.ratio:.2f} ({low:.2f} to {high:.2f})"
        )


def left_out_of(pairs: int) -> int:
    """Return how many of the smallest and of the largest of so many values lie outside of their median's interval.

    Each value is above the true median as often as below it, so that the number below it is binomial.
    """
    left_out, tail = 0, 1
    while 2 * tail <= 0.05 * 2**pairs:
        left_out += 1
        tail += math.comb(pairs, left_out)
    return max(0, left_out - 1)


@dataclass(kw_only=True)
class Result:
    """What a run found. :ivar failed: figures that cannot be compared, each with the reason."""

    compared: list[Comparison] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)

    def add(self, other: Result) -> None:
        self.compared += other.compared
        self.failed |= other.failed


class Side:
    """A process that measures the package in *tree*."""

    def __init__(self, label: str, tree: Path, place: Path) -> None:
        place.mkdir()
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        command = [sys.executable, "-B", str(Path(side.__file__).resolve()), str(tree)]
        self.label, self._place = label, place
        self._process = subprocess.Popen(  # noqa: S603 - this interpreter, a script of this folder
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=kept | {"PYTHONHASHSEED": "0"},
            cwd=place,
        )

    def open(self, url: str, size: Size) -> None:
        """Let it make its schema at *url*, where nothing is."""
        self.ask("open", url=url, directory=str(self._place), smallest=size is Size.SMALLEST)

    def ask(self, method: str, **arguments: Any) -> Any:
        """Let it do what *method* of :class:`benchmarks.side.Side` does; the first order opens it.

        :raises NotComparable: it failed; says which side and how.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps([method, arguments]) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        answer = json.loads(line or '{"error": "its process has ended; what it printed is above"}')
        if "error" in answer:
            raise NotComparable(f"{self.label}: {answer['error']}")
        return answer["answer"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        with self._process:  # which closes what it answered through
            self._process.stdin.close()
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()


@contextmanager
def tree_of(commit: str) -> Iterator[Path]:
    """Unpack the package, the benchmarks and the tests of *commit* while the context lasts; nothing in git changes.

    The benchmarks start their servers by ``tests/servers``.

    :raises SystemExit: no such commit here, or it lacks one of these folders.
    """
    name = resolved(commit)
    archived = _git("archive", "--format=tar", name, "airflow_provider", "benchmarks", "tests")
    if archived.returncode:
        raise SystemExit(
            f"--against {commit}: it has no package to measure: {archived.stderr.decode().strip()}"
        )
    with directory("against") as place, tarfile.open(fileobj=io.BytesIO(archived.stdout)) as archive:
        tree = place.resolve() / "tree"
        archive.extractall(tree, filter="data")
        yield tree


def resolved(commit: str) -> str:
    """Return the full name of *commit*.

    :raises SystemExit: it is not in this clone; says how to get it.
    """
    found = _git("rev-parse", "--quiet", "--verify", "--end-of-options", f"{commit}^{{commit}}")
    if found.returncode:
        raise SystemExit(
            f"--against {commit}: no such commit in {ROOT}. A shallow clone has the newest ones only: "
            "git fetch --unshallow (or git fetch origin, where the clone is whole)"
        )
    return found.stdout.decode().strip()


def _git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=False)  # noqa: S603, S607


def wanted(store: str, only: str) -> list[str]:
    """Return the figures of a store whose names match the pattern *only*, such as ``publish.*``."""
    clocks = [
        (step, table, clock) for table in TABLES for step in ("begin", "publish") for clock in ("cpu", "wall")
    ]
    names = [f"{step}.{store}.{table}.{clock}" for step, table, clock in clocks]
    names += [f"publish.{store}.{SIDE_BY_SIDE}.{clock}" for clock in ("cpu", "wall")]
    return [name for name in names if fnmatchcase(name, only)]


def compare(store: Store, tree: Path, only: str = "*", size: Size = Size.FULL) -> Result:
    """Measure the present package against that in *tree*, on stores of their own beside that at *store*'s URL."""
    result, names = Result(), wanted(store.name, only)
    if not names:
        return result
    with (
        directory("sides") as place,
        Side("the other commit", tree, place / "before") as before,
        Side("the present tree", ROOT, place / "now") as now,
    ):
        try:
            before.open(own_url(store.url), size)
            now.open(own_url(store.url), size)
        except NotComparable as error:
            result.failed |= dict.fromkeys(names, str(error))
            return result
        for kind in TURNS:
            own = [name for name in names if f".{kind}." in name]
            try:
                for comparison in _by_turns(before, now, kind, own, size) if own else []:
                    comparison.print()
                    result.compared.append(comparison)
            except NotComparable as error:
                result.failed |= dict.fromkeys(own, str(error))
    return result


def _by_turns(before: Side, now: Side, kind: str, names: Sequence[str], size: Size) -> Iterator[Comparison]:
    """Let the sides run by turns, each first as often as the other."""
    turns: dict[Side, list[side.Epoch]] = {before: [], now: []}
    for measured in (before, now):
        _turn(measured, kind, size)  # tables and processes are made, what is remembered is read
    for number in range(size.of(TURNS[kind], 2)):
        for measured in (before, now) if number % 2 == 0 else (now, before):
            turns[measured].append(_turn(measured, kind, size))
    for name in names:
        parts = name.split(".")
        key = f"{parts[0]}.{parts[-1]}"
        was, is_ = ([turn[key] for turn in turns[measured]] for measured in (before, now))
        yield Comparison(
            name=name,
            before_ms=statistics.median(was),
            now_ms=statistics.median(is_),
            ratios=[new / old if old else 1.0 for old, new in zip(was, is_, strict=True)],
        )


def _turn(measured: Side, kind: str, size: Size) -> side.Epoch:
    """Return the medians of a turn's epochs."""
    if kind == SIDE_BY_SIDE:
        epochs = measured.ask(kind, jobs=size.of(JOBS, 2), publishes=size.of(EPOCHS[kind], 1))
    else:
        epochs = measured.ask("epochs", table=kind, number=size.of(EPOCHS[kind], 1))
    return {key: statistics.median(epoch[key] for epoch in epochs) for key in epochs[0]}


def own_url(url: str) -> str:
    """Return the URL of a store, without a schema, on the server of that at *url*."""
    name = f"against_{uuid.uuid4().hex}"
    place, _, _ = url.rpartition("/")
    if url.startswith("postgresql"):
        engine = sa.create_engine(url, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.exec_driver_sql(f"CREATE DATABASE {name}")
        engine.dispose()
    return f"{place}/{name}" + (".db" if url.startswith("sqlite") else "")


def report(result: Result, at_most: float) -> int:
    """Say what the comparison shows; return the program's status: 0 where no figure is above *at_most*."""
    slower = [comparison for comparison in result.compared if comparison.ratio > at_most]
    for name, reason in result.failed.items():
        progress(f"{name} cannot be compared: {reason}")
    for comparison in slower:
        doubtful = ", within its spread" if comparison.spread[0] <= at_most else ""
        progress(
            f"{comparison.name} is slower: {comparison.ratio:.2f}, at most {at_most:.2f} is asked{doubtful}"
        )
    progress(
        f"{len(result.compared)} compared, {len(slower)} above {at_most:.2f}, {len(result.failed)} not comparable"
    )
    return 2 if result.failed or not result.compared else int(bool(slower))
