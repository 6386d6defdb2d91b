"""The pins: one Spark, constraints that agree with setup.cfg, an environment that agrees with the pins."""

from __future__ import annotations

import base64
import csv
import hashlib
import importlib.metadata
import importlib.util
import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from airflow_provider.sources import postgresql as jdbc
from tests.architecture.sources import ROOT, setup_cfg
from tests.servers import zookeeper

APART = "openlineage"
"""Extra that its test installs in a folder of its own: its HTTP client is a second one of the same author."""


def _requirements() -> list[Requirement]:
    options = setup_cfg()
    texts = options["options"]["install_requires"].splitlines()
    for extra, lines in options["options.extras_require"].items():
        texts += [] if extra == APART else lines.splitlines()
    return [Requirement(text) for text in texts if text.strip()]


def _constraints() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in pins}


def _versions() -> dict[str, str]:
    lines = (ROOT / "versions.env").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def test_constraints_are_exact_and_name_no_address() -> None:
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    inexact = [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.!+_-]+", line)]
    assert inexact == []


def test_constraints_satisfy_setup_cfg() -> None:
    pins = _constraints()
    unmet = [
        f"{requirement}: pinned is {pins.get(canonicalize_name(requirement.name), 'nothing')}"
        for requirement in _requirements()
        if not requirement.specifier.contains(
            pins.get(canonicalize_name(requirement.name), ""), prereleases=True
        )
    ]
    assert unmet == [], "run: make constraints"


def test_what_is_installed_apart_satisfies_setup_cfg() -> None:
    lines = (ROOT / "tests/services/openlineage-requirements.txt").read_text().splitlines()
    pins = dict(line.split("==") for line in lines if not line.startswith("#"))
    wanted = [
        Requirement(line)
        for line in setup_cfg()["options.extras_require"][APART].splitlines()
        if line.strip()
    ]
    assert [
        requirement.name
        for requirement in wanted
        if not requirement.specifier.contains(pins[requirement.name])
    ] == []


def test_environment_has_the_pinned_versions() -> None:
    pins = _constraints()
    installed = {
        requirement.name: importlib.metadata.version(requirement.name) for requirement in _requirements()
    }
    other = {name: found for name, found in installed.items() if found != pins[canonicalize_name(name)]}
    assert other == {}, "run: make prepare"


# --- one Spark -----------------------------------------------------------------------------------------------


def _mixed(distribution: importlib.metadata.Distribution) -> list[str]:
    """List the files of *distribution* that are absent, or not those that it installed."""
    wrong = []
    for name, recorded, _ in csv.reader((distribution.read_text("RECORD") or "").splitlines()):
        if not name.endswith((".py", ".jar", ".zip")) or not recorded:
            continue
        path = Path(str(distribution.locate_file(name)))
        if not path.is_file():
            wrong.append(f"{name} is absent")
            continue
        algorithm, _, digest = recorded.partition("=")
        with path.open("rb") as content:
            found = hashlib.file_digest(content, algorithm).digest()
        if base64.urlsafe_b64encode(found).rstrip(b"=").decode() != digest:
            wrong.append(f"{name} is not the one that {distribution.name} {distribution.version} installed")
    return wrong


@pytest.mark.parametrize("name", ["pyspark", "pyspark-client"])
def test_pyspark_is_of_one_version(name: str) -> None:
    """Two distributions own the folder ``pyspark/``; where their versions differ, UDFs fail at run time."""
    distribution = importlib.metadata.distribution(name)
    pins = {
        str(requirement.specifier)
        for requirement in _requirements()
        if requirement.name.startswith("pyspark")
    }
    assert pins == {f"=={distribution.version}"}
    mixed = _mixed(distribution)
    assert mixed == [], f"{len(mixed)} files are mixed; run: rm -rf .venv && make prepare"


def test_a_mixed_pyspark_is_noticed(tmp_path: Path) -> None:
    """The check above fails on what a second version leaves behind."""
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark/version.py").write_text('__version__ = "4.1.3"\n')
    (tmp_path / "pyspark/udf.py").write_text("from_another_version = True\n")
    info = tmp_path / "pyspark-4.1.3.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: pyspark\nVersion: 4.1.3\n")

    def record(name: str, content: bytes) -> str:
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        return f"{name},sha256={digest},{len(content)}\n"

    (info / "RECORD").write_text(
        record("pyspark/version.py", b'__version__ = "4.1.3"\n')
        + record("pyspark/udf.py", b"from_this_version = True\n")
        + record("pyspark/gone.py", b"")
    )
    (distribution,) = importlib.metadata.distributions(name="pyspark", path=[str(tmp_path)])
    assert _mixed(distribution) == [
        "pyspark/udf.py is not the one that pyspark 4.1.3 installed",
        "pyspark/gone.py is absent",
    ]


def test_versions_of_images_are_those_of_the_constraints() -> None:
    versions = _versions()
    assert versions["AIRFLOW_VERSION"] == _constraints()["apache-airflow"]
    (written_by,) = re.findall(r"\(Python (\d+\.\d+)\.\d+\)", (ROOT / "constraints.txt").read_text())
    assert versions["PYTHON_VERSION"] == written_by


def test_the_servers_that_tests_start_have_the_pinned_versions() -> None:
    assert _versions()["ZOOKEEPER_VERSION"] == zookeeper.VERSION


def test_versions_of_jars_fit_the_pinned_spark() -> None:
    versions = _versions()
    spark = _constraints()["pyspark"]
    assert versions["SPARK_VERSION"] == spark
    found = importlib.util.find_spec("pyspark")
    assert found is not None
    assert found.submodule_search_locations is not None
    (hadoop,) = Path(found.submodule_search_locations[0]).glob("jars/hadoop-client-api-*.jar")
    assert versions["HADOOP_AWS"].rpartition(":")[2] == hadoop.stem.rpartition("-")[2]
    runtime = f"iceberg-spark-runtime-{'.'.join(spark.split('.')[:2])}_{versions['SCALA_VERSION']}"
    assert versions["POSTGRES_JDBC"] == jdbc.PACKAGE
    assert versions["ICEBERG_SPARK_RUNTIME"] == f"org.apache.iceberg:{runtime}:{versions['ICEBERG_VERSION']}"
