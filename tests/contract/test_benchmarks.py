"""The benchmarks in their smallest size: every line of them runs, on every store; their figures mean nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from airflow_provider.stores.factory import upgrade_schema
from benchmarks import against
from benchmarks.__main__ import ONCE, PARTS, SLOW, main
from benchmarks.sizes import Size
from benchmarks.stores import STORES, Store

pytestmark = pytest.mark.thorough

WITH_SPARK = {"first_row", "object_store", "read", "share", "write"}
"""Parts that the integration tier runs, beside its Spark, and the slow tier, with jars of 640 MB."""
WITH_AIRFLOW = {"cascade", "handover", "parse"}
"""Airflow runs, or its DAG processor alone: a minute or two each."""
WITH_BROWSER = {"page"}
"""The part that the browser's tests run, on the Airflow that they have started."""
SERVERS = {"sqlite": None, "postgresql": "postgresql", "zookeeper_1": "zookeeper", "zookeeper_3": "zookeeper"}


@pytest.fixture(scope="module", params=sorted(set(SERVERS) - {"zookeeper_3"}))
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A store on a server that the tests have started anyway."""
    url = f"sqlite:///{tmp_path_factory.mktemp('bench')}/store.db"
    if SERVERS[request.param]:
        server = request.getfixturevalue(SERVERS[request.param])
        is_postgresql = request.param == "postgresql"
        url = server.url(server.create_database()) if is_postgresql else server.url()
    upgrade_schema(url)
    return Store(name=request.param, url=url)


def figures(capsys: pytest.CaptureFixture[str]) -> dict[str, float]:
    """What was printed for programs."""
    found = re.findall(r"^figure (\S+) (\S+)$", capsys.readouterr().out, re.MULTILINE)
    return {name: float(value) for name, value in found}


@pytest.mark.parametrize("part", sorted(PARTS))
def test_a_part_runs_on_every_store(store: Store, part: str, capsys: pytest.CaptureFixture[str]) -> None:
    PARTS[part](store, Size.SMALLEST)
    found = figures(capsys)
    assert found
    assert all(f".{store.name}." in name for name in found)
    assert found.get(f"bench.swap.{store.name}.wrong_reads", 0) == 0


@pytest.mark.parametrize("part", sorted(SLOW))
def test_a_slow_part_runs(part: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    upgrade_schema(url)
    SLOW[part](Store(name="sqlite", url=url), Size.SMALLEST)
    assert figures(capsys)


@pytest.mark.parametrize(
    "part",
    [
        pytest.param(part, marks=[pytest.mark.slow] if part in WITH_AIRFLOW else [])
        for part in sorted(set(ONCE) - WITH_SPARK - WITH_BROWSER)
    ],
)
def test_a_part_of_one_store_runs(part: str, capsys: pytest.CaptureFixture[str]) -> None:
    ONCE[part](Size.SMALLEST)
    assert figures(capsys)


def test_this_commit_is_compared_with_itself_by_turns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Store(name="sqlite", url=f"sqlite:///{tmp_path}/store.db")
    with against.tree_of("HEAD") as tree:
        result = against.compare(store, tree, "publish.*", Size.SMALLEST)
    assert result.failed == {}
    names = against.wanted("sqlite", "publish.*")
    assert [comparison.name for comparison in result.compared] == names
    assert figures(capsys).keys() == {f"bench.against.{name}" for name in names}
    assert {name.rpartition(".")[0] for name in names} == {
        "publish.sqlite.memory",
        "publish.sqlite.iceberg",
        "publish.sqlite.side_by_side",
    }


def test_each_side_of_a_comparison_has_a_store_of_its_own(store: Store) -> None:
    first, second = against.own_url(store.url), against.own_url(store.url)
    assert len({first, second, store.url}) == 3
    upgrade_schema(first)
    upgrade_schema(second)


def test_a_commit_without_the_measured_code_is_named_with_each_figure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Such as one before a package of that name: what is installed is not measured in its place."""
    (tmp_path / "tree").mkdir()
    store = Store(name="sqlite", url=f"sqlite:///{tmp_path}/store.db")
    result = against.compare(store, tmp_path / "tree", "begin.*.cpu", Size.SMALLEST)
    assert set(result.failed) == {"begin.sqlite.memory.cpu", "begin.sqlite.iceberg.cpu"}
    assert "the other commit: " in result.failed["begin.sqlite.memory.cpu"]
    assert against.report(result, against.AT_MOST) == 2
    assert "begin.sqlite.memory.cpu cannot be compared: the other commit: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--against", "no-such-commit"], "--against no-such-commit: no such commit in "),
        (["--only", "publish.*"], ""),
        (["--against", "HEAD", "--slow"], ""),
    ],
)
def test_incomparable_arguments_are_refused_before_any_measurement(
    arguments: list[str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["benchmarks", *arguments])
    with pytest.raises(SystemExit) as refused:
        main()
    assert refused.value.code == 2 or str(refused.value).startswith(said)


@pytest.mark.parametrize(("pairs", "left_out"), [(1, 0), (5, 0), (6, 0), (8, 0), (9, 1), (12, 2), (20, 5)])
def test_spread_leaves_out_ranks_outside_the_confidence_interval(pairs: int, left_out: int) -> None:
    """From tables of confidence intervals of a median by ranks: of 20 values the 6th to the 15th."""
    assert against.left_out_of(pairs) == left_out


def test_a_figure_above_its_limit_fails_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    slow = against.Comparison(name="publish.x", before_ms=1.0, now_ms=1.2, ratios=[1.2, 1.0, 1.3])
    result = against.Result(compared=[slow])
    assert against.report(result, 1.1) == 1
    assert "publish.x is slower: 1.20, at most 1.10 is asked, within its spread" in capsys.readouterr().err
    assert against.report(result, 1.25) == 0
    assert against.report(against.Result(), 1.1) == 2


def test_every_store_that_is_measured_is_tried_here() -> None:
    assert set(SERVERS) == set(STORES)
