"""Stores as an older version of the package left them: how they are recorded, and loaded into servers of today.

``python -m tests.contract.recorded_stores PACKAGE`` records them again, with the package in that folder. What is
recorded has a place of so many characters everywhere, so that it is loaded into another one without a change of length.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
from contextlib import ExitStack, closing
from pathlib import Path

from kazoo.client import KazooClient

from airflow_provider.coordination.service import Settings
from tests.contract import recorded_work
from tests.contract.recorded_work import settings_of
from tests.servers.postgresql import USER, PostgresqlServer, binaries
from tests.servers.zookeeper import ZookeeperServer

RECORDED = Path(__file__).parents[1] / "recorded" / "stores_format_1.tar.xz"
STORES = ("sqlite", "postgresql", "zookeeper")
_PLACE = "/recorded/" + "o" * 150
_DATABASE, _DUMP, _NODES = "store.db", "store.sql", "store.json"
_MAKING = (
    "from airflow_provider.stores.factory import upgrade_schema; import sys; upgrade_schema(sys.argv[1])"
)
_MAKING_CATALOG = (
    "from airflow_provider.tables.factory import make_catalog; import sys; make_catalog(sys.argv[1])"
)


def place_in(directory: Path) -> Path:
    """Return a new folder in *directory* whose path is as long as all that are recorded."""
    folder = directory / ("o" * (len(_PLACE) - len(str(directory)) - 1))
    assert len(str(folder)) == len(_PLACE), f"{directory} is too long a path"
    folder.mkdir()
    return folder


def loaded(
    name: str, server: PostgresqlServer | ZookeeperServer | None, directory: Path
) -> tuple[Settings, Path]:
    """Load the store *name* into *server*; return where all is, and the folder of its files."""
    folder = place_in(directory)
    with tarfile.open(RECORDED) as archive:
        members = [entry for entry in archive.getmembers() if entry.name.startswith(f"{name}/")]
        for member in members:
            member.name = member.name.removeprefix(f"{name}/")
        archive.extractall(folder, members, filter="data")
    _replace(folder, _PLACE, str(folder))
    if isinstance(server, PostgresqlServer):
        database = server.create_database()
        with server.connect(database) as connection:
            connection.execute((folder / _DUMP).read_bytes())
        return settings_of(server.url(database), folder), folder
    if isinstance(server, ZookeeperServer):
        url = server.url()
        _load_nodes(server, url, json.loads((folder / _NODES).read_text()))
        return settings_of(url, folder, f"sqlite:///{folder}/catalog.db"), folder
    return settings_of(f"sqlite:///{folder}/{_DATABASE}", folder), folder


def _replace(folder: Path, old: str, new: str) -> None:
    """Let all files in *folder* name another place; those of rows name none, and times of files stay."""
    for path in folder.rglob("*"):
        if path.is_file() and path.suffix not in (".parquet", ".csv"):
            path.write_bytes(path.read_bytes().replace(old.encode(), new.encode()))


def _load_nodes(server: ZookeeperServer, url: str, nodes: list[list[str | int]]) -> None:
    """Make the nodes, each as often written as it was: its version is part of its record's."""
    root = url.removeprefix(f"zookeeper://{server.hosts}")
    client = KazooClient(server.hosts)
    client.start()
    client.create(root)
    for path, version, text in nodes:
        data = str(text).encode("latin-1")
        client.create(f"{root}{path}", data)
        for _ in range(int(version)):
            client.set(f"{root}{path}", data)
    client.stop()
    client.close()


# --- recording -----------------------------------------------------------------------------------------------


def record(package: Path) -> None:
    """Let the version in *package* work on a store of each kind, and put what it leaves into :data:`RECORDED`."""
    with ExitStack() as stack, tarfile.open(RECORDED, "w:xz", preset=9) as archive:
        programs = binaries()
        assert programs is not None, "no PostgreSQL is installed"
        for name in STORES:
            folder = place_in(Path(stack.enter_context(tempfile.TemporaryDirectory())))
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            if name == "postgresql":
                server = stack.enter_context(PostgresqlServer(programs=programs, directory=directory))
                database = server.create_database()
                _work(package, server.url(database), folder)
                (folder / _DUMP).write_text(_dumped(server, database))
            elif name == "zookeeper":
                keeper = stack.enter_context(ZookeeperServer(directory=directory / "one"))
                url = keeper.url()
                _work(package, url, folder, f"sqlite:///{folder}/catalog.db")
                (folder / _NODES).write_text(json.dumps(_nodes(keeper, url)))
                _as_one_file(folder / "catalog.db")
            else:
                _work(package, f"sqlite:///{folder}/{_DATABASE}", folder)
                _as_one_file(folder / _DATABASE)
            _replace(folder, str(folder), _PLACE)
            for path in sorted(folder.rglob("*")):
                if path.is_file():
                    archive.add(path, f"{name}/{path.relative_to(folder)}", filter=_without_names)


def _without_names(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def _work(package: Path, url: str, folder: Path, catalog: str = "") -> None:
    programs = [["-c", _MAKING, url]]
    if catalog:
        programs.append(["-c", _MAKING_CATALOG, catalog])
    programs.append([recorded_work.__file__, url, str(folder), *([catalog] if catalog else [])])
    for arguments in programs:
        environment = {"PYTHONPATH": str(package), "PATH": os.environ["PATH"], "HOME": str(folder)}
        subprocess.run([sys.executable, *arguments], cwd=package, env=environment, check=True)


def _as_one_file(path: Path) -> None:
    copy = path.with_suffix(".copy")
    with closing(sqlite3.connect(path)) as old, closing(sqlite3.connect(copy)) as new:
        old.backup(new)
        new.execute("PRAGMA journal_mode = DELETE")
    for rest in path.parent.glob(f"{path.name}*"):
        rest.unlink()
    shutil.move(copy, path)


def _dumped(server: PostgresqlServer, database: str) -> str:
    """Return the statements that make the database again, without what only some versions of the server know."""
    command = [
        str(server.programs / "pg_dump"),
        "--inserts",
        "--no-owner",
        "--no-privileges",
        "--host=127.0.0.1",
        f"--port={server.port}",
        f"--username={USER}",
        database,
    ]
    environment = {**os.environ, "PGPASSWORD": server.password}
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    told = ("SET ", "--", "\\", "SELECT pg_catalog.set_config")
    return "".join(
        f"{line}\n" for line in done.stdout.splitlines() if line.strip() and not line.startswith(told)
    )


def _nodes(server: ZookeeperServer, url: str) -> list[list[str | int]]:
    root = url.removeprefix(f"zookeeper://{server.hosts}")
    client = KazooClient(server.hosts)
    client.start()
    found: list[list[str | int]] = []
    folders = [""]
    for path in folders:
        if path:
            data, status = client.get(f"{root}{path}")
            found.append([path, status.version, data.decode("latin-1")])
        folders += [f"{path}/{child}" for child in sorted(client.get_children(f"{root}{path}"))]
    client.stop()
    client.close()
    return found


if __name__ == "__main__":
    record(Path(sys.argv[1]))
