"""Where the demo keeps its metadata: a SQLite file, or a real server that the demo starts, breaks and repairs.

All data of a server lie in the demo's home, its ports are free ones, and its processes carry the home's mark. What
differs between the stores is here and in the connection; DAGs, jobs and readers are the same.
"""

from __future__ import annotations

import secrets
import signal
from abc import ABC, abstractmethod
from collections.abc import Mapping
from itertools import cycle
from pathlib import Path
from typing import ClassVar

from airflow_provider import Settings
from airflow_provider.stores.factory import upgrade_schema
from demo.connection import CATALOG_CONN_ID, CONN_ID, Connections, connection, settings_of
from demo.processes import MARK, ProcessFailedError
from tests.servers.postgresql import USER, PostgresqlServer, ServerFailedError, binaries
from tests.servers.zookeeper import ZookeeperEnsemble, ZookeeperServer, class_path


class MissingProgramError(RuntimeError):
    """A program that the chosen store needs is not installed; says how to install it."""


class DemoStore(ABC):
    """A metadata store of the demo's own.

    :param home: the demo's home; the store's files lie in ``epochs`` in it.
    :param warehouse: URI under which tables lie.
    """

    name: ClassVar[str]
    """As ``--store`` and ``make demo STORE=`` have it; also the connection's backend."""

    def __init__(self, *, home: Path, warehouse: str) -> None:
        self.home = home
        self.warehouse = warehouse
        self.folder = home / "epochs" / self.name

    @property
    @abstractmethod
    def connections(self) -> Connections:
        """``epochs_default``, and the connection that it names, if it names one."""

    @property
    def settings(self) -> Settings:
        """What the connections lead to."""
        return settings_of(self.connections)

    @abstractmethod
    def require(self) -> None:
        """Look for the programs that it needs.

        :raises MissingProgramError: one is not installed.
        """

    @abstractmethod
    def start(self) -> None:
        """Make it ready for use, with its data of an earlier start when there are any.

        :raises ServerFailedError: its server does not start.
        """

    @abstractmethod
    def stop(self) -> None:
        """Stop its server; does nothing when none runs."""

    @abstractmethod
    def check(self) -> None:
        """Say so when its server has ended by itself.

        :raises ProcessFailedError: naming its log.
        """


class ServerStore(DemoStore):
    """A store with a server, which can be broken."""

    @abstractmethod
    def strike(self) -> str:
        """Break the server now; return when it is down, with what was done. :meth:`repair` follows."""

    @abstractmethod
    def repair(self) -> None:
        """Bring back what :meth:`strike` broke, and wait until it answers."""


class SqliteStore(DemoStore):
    """A file, as on a laptop: there is no server that could break."""

    name = "sqlite"

    @property
    def connections(self) -> Connections:
        file = str(self.home / "epochs" / "epochs.db")
        return {CONN_ID: connection(backend=self.name, host=file, extra={"warehouse": self.warehouse})}

    def require(self) -> None:
        """Python has what it needs."""

    def start(self) -> None:
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        upgrade_schema(self.settings.store_url)  # the readers come first, and looking makes no store

    def stop(self) -> None:
        """Nothing runs."""

    def check(self) -> None:
        """Nothing can have ended."""


class PostgresqlStore(ServerStore):
    """A PostgreSQL server; the Iceberg catalog is in the same database."""

    name = "postgresql"
    database = "postgres"

    def __init__(self, *, home: Path, warehouse: str) -> None:
        super().__init__(home=home, warehouse=warehouse)
        secret = self.folder / "password"
        password = secret.read_text() if secret.exists() else secrets.token_urlsafe(32)
        programs = binaries()
        self._installed = programs is not None
        self._server = PostgresqlServer(
            programs=programs or Path(),
            directory=self.folder,
            password=password,
            environment={MARK: str(home)},
        )
        self._down = False
        self._ends = cycle(
            (
                (signal.SIGQUIT, "PostgreSQL ended without a word, as in a crash"),
                (signal.SIGINT, "PostgreSQL ended as an administrator's restart does"),
            )
        )

    @property
    def connections(self) -> Connections:
        return {
            CONN_ID: connection(
                backend=self.name,
                host="127.0.0.1",
                port=self._server.port,
                schema=self.database,
                login=USER,
                password=self._server.password,
                extra={"warehouse": self.warehouse},
            )
        }

    def require(self) -> None:
        if not self._installed:
            raise MissingProgramError(
                "missing: PostgreSQL's server (initdb, pg_ctl). Install it with: sudo apt-get install postgresql"
            )

    def start(self) -> None:
        if not self._server.data.exists():
            self.folder.mkdir(parents=True)
            self._server.create()
        self._server.start()
        upgrade_schema(self.settings.store_url)

    def stop(self) -> None:
        if not self._server.running:
            return
        try:
            self._server.stop()
        except ServerFailedError:
            if self._server.running:  # else another thread has stopped it at the same time
                raise

    def check(self) -> None:
        if not self._down and not self._server.running:
            raise ProcessFailedError(name=self.name, reason="ended", log=self.folder / "log")

    def strike(self) -> str:
        number, what = next(self._ends)
        self._down = True
        self._server.end_at_once(number)
        return what

    def repair(self) -> None:
        self._server.start()
        self._down = False


class ZookeeperStore(ServerStore):
    """An ensemble of three ZooKeeper servers; the tables' pointers are in a SQLite file beside it."""

    name = "zookeeper"
    chroot = "epochs"

    def __init__(self, *, home: Path, warehouse: str) -> None:
        super().__init__(home=home, warehouse=warehouse)
        self._ensemble = ZookeeperEnsemble(self.folder, environment={MARK: str(home)})
        self._leader: ZookeeperServer | None = None
        self._struck: ZookeeperServer | None = None

    @property
    def connections(self) -> Connections:
        catalog = str(self.home / "epochs" / "catalog.db")
        return {
            CONN_ID: connection(
                backend=self.name,
                host=self._ensemble.hosts,
                schema=self.chroot,
                extra={"warehouse": self.warehouse, "catalog": CATALOG_CONN_ID},
            ),
            CATALOG_CONN_ID: connection(backend=SqliteStore.name, host=catalog, extra={}),
        }

    def require(self) -> None:
        if class_path() is None:
            raise MissingProgramError(
                "missing: Java, to run ZooKeeper. Install it with: sudo apt-get install openjdk-17-jre-headless"
            )

    def start(self) -> None:
        self._ensemble.start()
        self._leader = self._ensemble.leader()
        upgrade_schema(self.settings.store_url)

    def stop(self) -> None:
        for server in self._ensemble.servers:
            server.kill(signal.SIGTERM)

    def check(self) -> None:
        for server in self._ensemble.servers:
            if server is not self._struck and not server.running:
                raise ProcessFailedError(
                    name=f"{self.name} {server.number}", reason="ended", log=server.directory / "log"
                )

    def strike(self) -> str:
        leader = self._leader
        if leader is None or leader.role() != "leader":
            leader = self._ensemble.leader()
        self._struck = leader
        leader.kill()
        return f"ZooKeeper's leader, server {leader.number} of 3, was killed"

    def repair(self) -> None:
        self._ensemble.start()
        self._leader = self._ensemble.leader()
        self._struck = None


STORES: Mapping[str, type[DemoStore]] = {
    store.name: store for store in (SqliteStore, PostgresqlStore, ZookeeperStore)
}
"""The stores that a demo can run on."""
