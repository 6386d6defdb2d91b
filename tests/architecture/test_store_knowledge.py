"""No module above ``stores/`` knows which store it has."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.architecture.sources import PACKAGE, module_name
from tests.architecture.store_knowledge import OPEN, ROOM, Stores, knowledge

FOLDER = PACKAGE / "stores"

EXCEPTIONS = {
    "testing.store_cases.concurrency": "names what its processes load beforehand; what is not installed is passed over",
    "sources": "asks databases and catalogs of others, of no store; how one is addressed is written once",
    "tables.memory": "memory tables lie in the memory store of the same name, and are refused on any other",
    "domain.identifiers": "refuses a name that one of the stores keeps for itself, so that domains can be moved",
    "domain.interval": "asks whether a time is exactly a datetime in UTC, of no store",
    "spark.interruption": "asks whether a session is one of Spark Connect, by its module",
}
"""Modules that may, and why."""


@pytest.fixture(scope="module")
def stores() -> Stores:
    return Stores.of(FOLDER)


@pytest.fixture(scope="module")
def found(stores: Stores) -> dict[Path, list[tuple[int, str]]]:
    """What every module above the stores knows of them."""
    above = [path for path in sorted(PACKAGE.rglob("*.py")) if not path.is_relative_to(FOLDER)]
    return {path: list(knowledge(path.read_text(), stores)) for path in above}


def _excepted(path: Path) -> str | None:
    name = module_name(path).removeprefix("airflow_provider.")
    return next((one for one in EXCEPTIONS if name == one or name.startswith(f"{one}.")), None)


def test_no_module_above_the_stores_knows_which_one_it_has(found: dict[Path, list[tuple[int, str]]]) -> None:
    assert len(found) > 100, "the package was not read"
    told = [
        f"{module_name(path)}:{line} {what}"
        for path, all_of_it in found.items()
        if _excepted(path) is None
        for line, what in all_of_it
    ]
    assert told == []


def test_every_exception_is_needed(found: dict[Path, list[tuple[int, str]]]) -> None:
    assert set(EXCEPTIONS) - {_excepted(path) for path, all_of_it in found.items() if all_of_it} == set()


def test_what_is_protected_follows_from_the_folder(stores: Stores) -> None:
    assert {f"{ROOM}.{one}" for one in ("sql", "zookeeper", "memory", "memory_opening")} <= stores.modules
    assert {"sqlite", "postgresql", "zookeeper", "zookeeperstore", "sqlstore"} <= stores.words
    assert {path.stem for path in FOLDER.glob("*.py")} >= set(OPEN), "an open module is gone"


VIOLATIONS = [
    "from airflow_provider.stores.zookeeper.store import ZookeeperStore",
    "import airflow_provider.stores.sql.store",
    "from airflow_provider.stores import sql",
    "def f(store):\n    from airflow_provider.stores.sql.store import SqlStore\n    return isinstance(store, SqlStore)",
    "from importlib import import_module\nsql = import_module('airflow_provider.stores.sql.store')",
    "from airflow_provider.stores.factory import POSTGRESQL",
    "from airflow_provider.stores.factory import _STORES",
    "from airflow_provider.stores.factory import _opener",
    "def f(url):\n    return scheme_of(url) == 'postgresql+psycopg'",
    "def f(url):\n    return url.startswith('sqlite:')",
    "def f(url):\n    return url.partition('://')[0] in {'zookeeper'}",
    "def f(url):\n    return url.startswith('memory://')",
    "def f(store):\n    return 'sqlite' in repr(store)",
    "def f(store):\n    return store.location.startswith('zookeeper')",
    "def f(store):\n    return type(store).__name__ == 'ZookeeperStore'",
    "def f(store, name):\n    return type(store).__name__ == name",
    "def f(store):\n    return store.__class__.__qualname__.startswith('Sql')",
    "def f(store):\n    return type(store).__module__.endswith('.store')",
    "def f(store):\n    match type(store).__name__:\n        case 'A':\n            return 1",
    "def f(store):\n    return hasattr(store, 'dialect')",
    "def f(self):\n    return getattr(self._store, 'session', None)",
    "def f(store, kinds):\n    return kinds[type(store)]",
    "def f(store):\n    return vars(store).get('_session')",
    "from airflow_provider.stores.base import MetadataStore\ndef f(store: MetadataStore):\n    return store._session",
    "from airflow_provider.stores.factory import open_store\ndef f(self):\n    return self._store.location",
    "def f(url):\n    return url.startswith('zoo' + 'keeper')",
    "SLOW = {'PostgreSQL': 3}",
    "def f(connection):\n    return connection.extra['backend'] == 'postgresql'",
    "def f(url):\n    return 'postgres' in url",
    "def f(url):\n    return url.startswith('zoo')",
    "def f(kind):\n    return kind in {'postgres', 'lite'}",
    "def f(kind):\n    match kind:\n        case 'keeper':\n            return 1",
    "def f(service):\n    return service._store.location",
    "def f(reader):\n    return reader._engine",
    "import sqlite3\ndef f(error):\n    return isinstance(error, sqlite3.OperationalError)",
    "def f(error):\n    from kazoo.exceptions import KazooException\n    return isinstance(error, KazooException)",
    "from psycopg import errors",
    "def f(kind):\n    return f'{kind}' == f'post{\"gres\"}ql'",
    "def f(kind):\n    return kind == 'zo' + 'oke' + 'eper'",
    "def f(store):\n    return store.capabilities == {StoreCapability.WATCH}",
    "def f(store):\n    return not store.capabilities - {StoreCapability.WATCH}\nlen(store.capabilities)",
    "def f(store, known):\n    return known.issuperset(store.capabilities)",
    "def f(store, known):\n    return store.capabilities in known",
]


@pytest.mark.parametrize("source", VIOLATIONS)
def test_knowledge_that_is_planted_is_found(stores: Stores, source: str) -> None:
    assert list(knowledge(source, stores)) != []


INNOCENT = [
    "from airflow_provider.stores.base import MetadataStore, StoreCapability",
    "from airflow_provider.stores.factory import open_store, redacted",
    "def f(store):\n    '''On SQLite and ZooKeeper.'''\n    return StoreCapability.WATCH in store.capabilities",
    "def f(error):\n    return f'{type(error).__name__}: {error}'",
    "FORMATS = {'memory': None, 'iceberg': None}",
    "def f(uri):\n    return uri.startswith('file://')",
    "def f(store):\n    return getattr(options, 'limit', 3)",
    "def f(self, inner):\n    self.capabilities = inner.capabilities\n    return self._store",
    "def f(kind):\n    return kind in {'memory', 'iceberg'} or kind.startswith('file')",
    "import sqlalchemy",
]


@pytest.mark.parametrize("source", INNOCENT)
def test_what_every_store_has_may_be_used(stores: Stores, source: str) -> None:
    assert list(knowledge(source, stores)) == []


def test_a_new_folder_is_protected_at_once(tmp_path: Path) -> None:
    """Before anything registers it, and without a list that names it."""
    folder = tmp_path / "stores"
    shutil.copytree(FOLDER, folder, ignore=shutil.ignore_patterns("__pycache__"))
    mine = folder / "mine"
    mine.mkdir()
    (mine / "__init__.py").touch()
    (mine / "opening.py").write_text("class MineOpener:\n    scheme = 'etcd'\n    form = 'etcd://HOST'\n")
    (mine / "store.py").write_text("class EtcdStore:\n    pass\n")
    stores = Stores.of(folder)
    for source in (
        "from airflow_provider.stores.mine.opening import MineOpener",
        "def f(url):\n    return url.startswith('etcd://')",
        "def f(store):\n    return str(store).startswith('EtcdStore(')",
    ):
        assert list(knowledge(source, Stores.of(FOLDER))) == []
        assert list(knowledge(source, stores)) != [], source
