"""The wheel that users install: everything that it needs, nothing that is not its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT, tracked_files


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from the tracked files alone, with the build tool that is installed."""
    source = tmp_path_factory.mktemp("source")
    for path in tracked_files():
        copy = source / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    command = [
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        str(source / "dist"),
        ".",
    ]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = (source / "dist").glob("*.whl")
    return built


def _names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_the_wheel_holds_one_package_and_no_airflow_namespace(wheel: Path) -> None:
    folders = {name.split("/")[0] for name in _names(wheel)}
    assert {folder for folder in folders if not folder.endswith(".dist-info")} == {"airflow_provider"}


def test_the_wheel_holds_every_file_of_the_package(wheel: Path) -> None:
    package = {
        str(path.relative_to(ROOT))
        for path in tracked_files()
        if path.is_relative_to(ROOT / "airflow_provider")
    }
    assert "airflow_provider/py.typed" in package
    assert package - _names(wheel) == set(), "name them in setup.cfg, [options.package_data]"


def test_the_wheel_works_without_the_sources(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    program = (
        "from importlib.metadata import distributions; import airflow_provider; "
        f"(one,) = distributions(name='airflow-provider-epochs', path=[{str(tmp_path)!r}]); "
        "print(airflow_provider.__file__); "
        "print(*sorted(f'{e.group}:{e.name}={e.value}' for e in one.entry_points)); "
        "print(one.read_text('METADATA'))"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-P", "-c", program],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    place, entries, metadata = done.stdout.split("\n", 2)
    assert Path(place).is_relative_to(tmp_path)
    assert entries.split() == [
        "airflow.plugins:epochs=airflow_provider.plugins.epochs_plugin:EpochsPlugin",
        "apache_airflow_provider:provider_info=airflow_provider.provider_info:get_provider_info",
    ]
    assert "License: Apache-2.0" in metadata
