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

from airflow_provider.stores.factory import upgrade_schema
from airflow_provider.testing.servers.postgresql import USER, PostgresqlServer, binaries
from demo.connection import Connection, connection, settings_of
from demo.processes import MARK, ProcessFailedError


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
    def connection(self) -> Connection:
        """Fields of ``epochs_default``."""

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
    def connection(self) -> Connection:
        file = self.home / "epochs" / "epochs.db"
        return connection(backend=self.name, warehouse=self.warehouse, host=str(file))

    def require(self) -> None:
        """Python has what it needs."""

    def start(self) -> None:
        self.folder.parent.mkdir(parents=True, exist_ok=True)

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
    def connection(self) -> Connection:
        return connection(
            backend=self.name,
            warehouse=self.warehouse,
            host="127.0.0.1",
            port=self._server.port,
            schema=self.database,
            login=USER,
            password=self._server.password,
        )

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
        upgrade_schema(settings_of(self.connection).store_url)

    def stop(self) -> None:
        if self._server.running:
            self._server.stop()

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


STORES: Mapping[str, type[DemoStore]] = {one.name: one for one in (SqliteStore, PostgresqlStore)}
"""The stores that a demo can run on."""
