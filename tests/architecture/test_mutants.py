"""The planted errors fit the code that they are planted in."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.mutants.__main__ import ROOT, planted_text, run
from tests.mutants.planted import PLANTED, Mutant

FEWEST = 40


@pytest.mark.parametrize("mutant", PLANTED, ids=lambda mutant: mutant.name)
def test_a_mutant_is_one_change_that_compiles(mutant: Mutant) -> None:
    compile(planted_text(mutant), mutant.file, "exec")
    assert mutant.old != mutant.new
    lines_go = mutant.old.endswith("\n") and not mutant.new
    source = (ROOT / "airflow_provider" / mutant.file).read_text()
    assert not lines_go or source.partition(mutant.old)[0].endswith("\n"), (
        "half a line stays before the next one"
    )
    assert mutant.tests
    modules = [ROOT / test.partition("::")[0] for test in mutant.tests]
    cases = [*modules, *(ROOT / "airflow_provider" / "testing" / "table_cases").glob("*.py")]
    assert not mutant.by or any(f"def {mutant.by}(" in path.read_text() for path in cases)


def test_planted_errors_use_no_name_that_is_not_there(tmp_path: Path) -> None:
    """Any test finds broken code: that says nothing about the rule."""
    for number, mutant in enumerate(PLANTED):
        (tmp_path / f"{number}.py").write_text(planted_text(mutant))
    ruff = [
        sys.executable,
        "-m",
        "ruff",
        "check",
        "--isolated",
        "--select",
        "F821,F823",
        "--output-format=json",
    ]
    found = json.loads(subprocess.run([*ruff, tmp_path], capture_output=True, check=False).stdout)
    assert [(PLANTED[int(Path(told["filename"]).stem)].name, told["message"]) for told in found] == []


def test_there_are_enough_mutants_with_names_of_their_own() -> None:
    assert len({mutant.name for mutant in PLANTED}) == len(PLANTED) >= FEWEST
    assert {mutant.file.split("/")[0] for mutant in PLANTED} == {
        "domain",
        "coordination",
        "hooks",
        "operators",
        "rest_catalog",
        "stores",
        "tables",
        "spark",
        "sources",
        "triggers",
    }


def test_a_run_without_an_end_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    """A hang is told as such, and leaves no process."""
    endless = "import os, pathlib, time; pathlib.Path(f'at-{os.fork()}').touch(); time.sleep(600)"
    assert run(tmp_path, ("-c", endless), limit_s=5).failure == "did not end within 5 s"
    (child,) = {int(path.name[3:]) for path in tmp_path.iterdir()} - {0}
    with contextlib.suppress(psutil.NoSuchProcess):
        while psutil.Process(child).status() != psutil.STATUS_ZOMBIE:
            time.sleep(0.05)


def test_run_returns_its_failure(tmp_path: Path) -> None:
    assert (
        run(tmp_path, ("-c", "print('seed 7: I2: a gap'); raise SystemExit(1)")).failure
        == "seed 7: I2: a gap"
    )
    assert run(tmp_path, ("-c", "raise SystemExit('no such module')")).failure == "no such module\n"
    assert run(tmp_path, ("-c", "import os; os.kill(os.getpid(), 9)")).failure == "exit code -9"
    assert run(tmp_path, ("-c", "print('FAILED but well')")).failure == ""


def test_a_run_without_a_test_is_no_verdict(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nothing ran"):
        run(tmp_path, ("-m", "pytest", "-p", "no:cacheprovider", "-k", "no_such_test"))


def test_terminated_run_leaves_no_copy_and_no_process(tmp_path: Path) -> None:
    begun = subprocess.Popen(
        [sys.executable, "-m", "tests.mutants"],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    process = psutil.Process(begun.pid)
    while not (running := process.children(recursive=True)):
        assert begun.poll() is None
        time.sleep(0.05)
    begun.terminate()
    assert begun.wait() != 0
    assert list(tmp_path.iterdir()) == []
    assert not any(child.is_running() for child in running)
