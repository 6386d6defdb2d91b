"""Adding a store is one folder and one line in the factory: done to a copy of the package, and used there.

The copy's store is called after its scheme, ``toy``; its records lie in the memory store. Nothing else of the copy is
touched: not the hook, not the form, not a list of backends.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

import airflow_provider

pytestmark = pytest.mark.thorough

PACKAGE = Path(airflow_provider.__file__).parent
LINE = '    "toy.opening:ToyOpener",\n'

OPENING = '''
"""A store to play with: what a folder below stores/ says about itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from airflow_provider.stores.connecting import ConnectionFields, FormField, StoreConnection
from airflow_provider.stores.memory_opening import MemoryOpener


class ToyConnection(StoreConnection):
    """``host`` is the toy's name."""

    backend = "toy"
    summary = "for nobody"
    places: ClassVar[Mapping[str, str]] = {"host": "bear"}
    extras: ClassVar[Mapping[str, FormField]] = {"colour": FormField(label="Colour", description="any.")}

    def url_of(self, connection: ConnectionFields) -> str:
        return f"toy://{connection.host}"


class ToyOpener(MemoryOpener):
    """Stores of one name share everything."""

    scheme = "toy"
    form = "toy://NAME"
    name = "a toy"
    connection = ToyConnection()
'''

CONTRACT = '''
"""The store contract, as the author of the toy runs it."""

import uuid

import pytest

from airflow_provider.stores import memory
from airflow_provider.stores.factory import open_store
from airflow_provider.testing.store_contract import StoreBackend, StoreContract


class ToyBackend(StoreBackend):
    def __init__(self, name):
        self.name = name

    def open(self, *, create=True):
        return open_store(f"toy://{self.name}")

    def plant(self, key, body):
        memory._server(self.name).entries[key].body = body


class TestToyStore(StoreContract):
    @pytest.fixture
    def backend(self):
        return ToyBackend(uuid.uuid4().hex)
'''

SMOKE = (
    "absence_is_required", "a_version_is_required", "numbers_have_no_gaps", "a_scan_is_sorted_and_bounded",
    "a_record_of_each_kind_comes_back_equal", "an_unreadable_record_is_never_skipped",
    "stamps_are_the_transactions",
)  # fmt: skip

USES = """
import json

import airflow_provider
from airflow_provider.domain.errors import InvalidInput
from airflow_provider.hooks.connection import ConnectionFields, catalog_url_of
from airflow_provider.hooks.epochs import EpochsHook
from airflow_provider.provider_info import get_provider_info
from airflow_provider.stores.factory import check_schema, upgrade_schema
from airflow_provider.tables.factory import check_catalog, make_catalog

form = get_provider_info()["connection-types"][0]
try:
    catalog_url_of(ConnectionFields(conn_id="c", host="bear", extra={"backend": "toy"}))
    refused = None
except InvalidInput as error:
    refused = error.field
settings = EpochsHook().get_settings()
schema = [upgrade_schema(settings.store_url), make_catalog(settings.catalog_url), check_schema(settings.store_url)]
with EpochsHook().get_conn(), EpochsHook().get_reader() as reader:
    domains = reader.domains()
print(json.dumps({
    "package": airflow_provider.__file__, "refused": refused, "domains": domains,
    "url": settings.store_url, "schema": schema, "catalog": check_catalog(settings.catalog_url),
    "backends": form["conn-fields"]["backend"]["schema"]["enum"],
    "colour": form["conn-fields"]["colour"]["description"],
    "host": form["ui-field-behaviour"]["placeholders"]["host"],
}))
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a copy of the package, with one store more."""
    root = tmp_path_factory.mktemp("copy")
    package = root / "airflow_provider"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    toy = package / "stores" / "toy"
    toy.mkdir()
    (toy / "__init__.py").touch()
    (toy / "opening.py").write_text(OPENING)
    factory = package / "stores" / "factory.py"
    text = factory.read_text()
    factory.write_text(
        re.sub(r"(?<=^_OPENERS = \(\n)((?: {4}.*\n)+)", rf"\1{LINE}", text, flags=re.MULTILINE)
    )
    (root / "test_toy.py").write_text(CONTRACT)
    return root


def _run(copy: Path, *words: str, environment: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(
        [sys.executable, *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=copy,
        env={
            **os.environ,
            "PYTHONPATH": str(copy),
            "AIRFLOW_HOME": str(copy / "home"),
            **(environment or {}),
        },
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_one_folder_and_one_line_is_all(copy: Path) -> None:
    before, after = (
        {
            path.relative_to(root): path.read_bytes()
            for path in root.rglob("*.py")
            if "__pycache__" not in path.parts
        }
        for root in (PACKAGE, copy / "airflow_provider")
    )
    changed = {path for path, text in after.items() if before.get(path) != text}
    assert {path for path in changed if path.parts[:2] != ("stores", "toy")} == {Path("stores/factory.py")}
    lines = [after[Path("stores/factory.py")], before[Path("stores/factory.py")]]
    theirs, ours = (text.decode().splitlines(keepends=True) for text in lines)
    differences = [line for line in difflib.ndiff(ours, theirs) if line[0] in "+-"]
    assert differences == [f"+ {LINE}"]


def test_the_contract_suite_runs_on_it(copy: Path) -> None:
    program = "import airflow_provider as one; print(one.__file__)"
    assert _run(copy, "-c", program).startswith(str(copy)), "the copy is not what is imported"
    said = _run(
        copy, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, f"--rootdir={copy}",
        str(copy / "test_toy.py"), "-k", " or ".join(f"test_{name}" for name in SMOKE),
    )  # fmt: skip
    passed = re.search(r"(\d+) passed", said)
    assert passed is not None, said
    assert int(passed[1]) >= len(SMOKE)


def test_a_connection_can_name_it_and_the_form_the_hook_and_the_upgrade_know_it(copy: Path) -> None:
    fields = {"conn_type": "epochs", "host": "bear"}
    extra = {
        "backend": "toy",
        "colour": "red",
        "warehouse": f"file://{copy}/warehouse",
        "catalog": "epochs_catalog",
    }
    catalog = {"conn_type": "epochs", "host": f"{copy}/catalog.db", "extra": {"backend": "sqlite"}}
    environment = {
        "AIRFLOW_CONN_EPOCHS_DEFAULT": json.dumps({**fields, "extra": extra}),
        "AIRFLOW_CONN_EPOCHS_CATALOG": json.dumps(catalog),
    }
    said = _run(copy, "-c", USES, environment=environment)
    found = json.loads(said.splitlines()[-1])
    assert found["package"].startswith(str(copy))
    assert (found["url"], found["domains"], found["refused"]) == ("toy://bear", [], "backend")
    assert (found["schema"], found["catalog"]) == ([None, None, None], True)
    assert found["backends"] == ["sqlite", "postgresql", "zookeeper", "toy", "hive", "glue", "rest"]
    assert found["colour"] == "toy: any."
    assert "toy: bear" in found["host"]
