"""Modules stay short enough to be read at one sitting."""

from __future__ import annotations

import pytest

from tests.architecture.sources import ROOT

LIMITS = {
    "airflow_provider": 450,
    "airflow_provider_epochs": 450,
    "demo": 450,
    "dags": 450,
    "benchmarks": 450,
    "spark_jobs": 250,
    "tests": 600,
}
VAGUE = {"utils", "util", "common", "helpers", "helper", "misc", "manager"}


@pytest.mark.parametrize("folder", sorted(LIMITS))
def test_no_module_is_long(folder: str) -> None:
    lines = {path: len(path.read_text().splitlines()) for path in (ROOT / folder).rglob("*.py")}
    long = {str(path.relative_to(ROOT)): count for path, count in lines.items() if count > LIMITS[folder]}
    assert long == {}, f"would two names tell more? The limit is {LIMITS[folder]} lines"


def test_a_module_is_named_by_its_subject() -> None:
    vague = [
        str(path.relative_to(ROOT))
        for path in (ROOT / "airflow_provider").rglob("*.py")
        if path.stem in VAGUE
    ]
    assert vague == []
