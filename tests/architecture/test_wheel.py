"""What users install: a wheel and a source distribution with all that the package needs, and nothing else."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from importlib.metadata import distribution, distributions
from pathlib import Path

import pytest

from airflow_provider import __version__
from tests.architecture.sources import ROOT, tracked_files

PACKAGES = ("airflow_provider", "airflow_provider_epochs")
STALE = (
    "airflow_provider/plugins",
    "airflow_provider/stores/sql/migrations/versions",
    "airflow_provider/domain",
)
"""Folders that hold bytecode of modules that are gone, as in any checkout that was used."""

Built = dict[str, Path]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Build as a maintainer does: the source distribution from the checkout, and from it the wheel."""
    source = tmp_path_factory.mktemp("source")
    for path in tracked_files():
        copy = source / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    for folder in STALE:
        cache = source / folder / "__pycache__"
        cache.mkdir()
        (cache / "gone.cpython-311.pyc").write_bytes(b"stale")
    _run([sys.executable, "-m", "build", "--no-isolation", "--outdir", "dist", "."], source)
    (wheel,) = (source / "dist").glob("*.whl")
    (sdist,) = (source / "dist").glob("*.tar.gz")
    return {"wheel": wheel, "sdist": sdist}


@pytest.fixture(scope="module", params=["wheel", "sdist"])
def installed(built: Built, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Python of a fresh environment that has what was built, and this environment's other packages."""
    place = tmp_path_factory.mktemp("installed")
    venv.create(place, symlinks=True)
    python = place / "bin" / "python"
    options = [
        "--no-deps",
        "--no-index",
        "--no-build-isolation",
        "--no-compile",
        "--disable-pip-version-check",
    ]
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", *options]
    _run([*command, str(built[request.param])], place, PYTHONPATH=str(_build_backend(place / "backend")))
    # Afterwards: pip would find the editable installation of this environment, and install nothing.
    (site,) = place.glob("lib/python*/site-packages")
    (site / "others.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return python


def _build_backend(folder: Path) -> Path:
    """Make a folder with setuptools alone, as pip would fetch it where it is allowed to."""
    folder.mkdir()
    for file in distribution("setuptools").files or ():
        whole = Path(str(file.locate())).resolve()
        top = whole.parents[len(file.parts) - 2] if len(file.parts) > 1 else whole
        link = folder / file.parts[0]
        if file.parts[0] != ".." and not link.exists():
            link.symlink_to(top)
    return folder


def _run(command: list[str], folder: Path, **variables: str) -> str:
    """Run *command* in *folder*, without what leads to the checkout; return what it printed to both streams."""
    mine = {name: text for name, text in os.environ.items() if not name.startswith(("AIRFLOW_", "PYTHON"))}
    done = subprocess.run(
        command,
        cwd=folder,
        env=mine | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def _names(built: Path) -> set[str]:
    """Return the files of a wheel or a source distribution, but the tools' own notes on it."""
    if built.suffix == ".whl":
        with zipfile.ZipFile(built) as archive:
            names = set(archive.namelist())
    else:
        with tarfile.open(built) as sources:
            names = {member.name.partition("/")[2] for member in sources if member.isfile()}
    return {name for name in names if ".dist-info/" not in name and ".egg-info/" not in name}


def _tracked(*folders: str) -> set[str]:
    names = {str(path.relative_to(ROOT)) for path in tracked_files()}
    return {name for name in names if name.split("/")[0] in folders}


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(built: Built) -> None:
    package = _tracked(*PACKAGES)
    assert {"airflow_provider/py.typed", "airflow_provider/plugins/grid/static/epochs.js"} <= package
    assert "airflow_provider_epochs/example_dags/example_epochs.py" in package
    assert package - _names(built["wheel"]) == set(), "name them in setup.cfg, [options.package_data]"
    assert _names(built["wheel"]) - package == set()


def test_source_distribution_holds_the_package_and_its_build_files(built: Built) -> None:
    built_by = {"LICENSE", "README.md", "pyproject.toml", "setup.cfg"}
    assert _names(built["sdist"]) == _tracked(*PACKAGES) | built_by | {"PKG-INFO"}


def test_the_simulator_and_the_servers_are_no_part_of_the_package() -> None:
    testing = {name.split("/")[2] for name in _tracked("airflow_provider") if "/testing/" in name}
    assert testing.isdisjoint({"simulation", "simulator", "servers"})


def test_installed_package_works_without_the_checkout(installed: Path, tmp_path: Path) -> None:
    program = (
        "import json, airflow_provider, airflow_provider.testing.pytest_plugin as plugin; "
        "print(json.dumps([airflow_provider.__file__, airflow_provider.__version__, plugin.__file__]))"
    )
    package, version, plugin = json.loads(_run([str(installed), "-P", "-c", program], tmp_path))
    place = installed.parents[1]
    assert Path(package).is_relative_to(place)
    assert Path(plugin).is_relative_to(place)
    (found,) = distributions(name="airflow-provider-epochs", path=[str(Path(package).parents[1])])
    assert found.version == version == __version__
    assert found.metadata["License"] == "Apache-2.0"
    assert sorted(f"{entry.group}:{entry.name}={entry.value}" for entry in found.entry_points) == [
        "airflow.plugins:epochs=airflow_provider.plugins.epochs_plugin:EpochsPlugin",
        "apache_airflow_provider:provider_info=airflow_provider.provider_info:get_provider_info",
        "console_scripts:airflow-epochs=airflow_provider.cli.program:main",
    ]


LOOK_AT_EXAMPLES = """
import json, sys

from airflow.dag_processing.bundles.manager import DagBundlesManager
from airflow.dag_processing.dagbag import BundleDagBag

bundle = DagBundlesManager().get_bundle("airflow-provider-epochs-example-dags")
bag = BundleDagBag(bundle.path, bundle_path=bundle.path, bundle_name=bundle.name)
print(json.dumps({
    "path": str(bundle.path),
    "dags": sorted(bag.dags),
    "errors": bag.import_errors,
    "pyspark": "pyspark" in sys.modules,
}))
"""


@pytest.mark.parametrize("installed", ["wheel"], indirect=True)
def test_airflow_shows_the_example_dags_and_logs_no_error(installed: Path, tmp_path: Path) -> None:
    """Airflow's defaults: a bundle for the examples of each provider, made when any Airflow process starts."""
    printed = _run([str(installed), "-P", "-c", LOOK_AT_EXAMPLES], tmp_path, AIRFLOW_HOME=str(tmp_path))
    *logged, last = printed.splitlines()
    found = json.loads(last)
    wrong = [line for line in logged if "[error" in line or "[critical" in line or "Traceback" in line]
    assert wrong == []
    assert found["errors"] == {}
    assert found["dags"] == ["example_epochs_count", "example_epochs_load", "example_epochs_read"]
    assert Path(found["path"]).is_relative_to(installed.parents[1])
    assert not found["pyspark"], "each parse of a DAG would wait for it"
