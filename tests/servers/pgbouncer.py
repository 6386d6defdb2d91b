"""A private PgBouncer before a private PostgreSQL: a real pooler with a port of its own.

It refuses to run as root, as PostgreSQL does: then Debian's user ``postgres`` runs it.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from tests.servers.ports import free_port
from tests.servers.postgresql import (
    SERVER_USER,
    USER,
    PostgresqlServer,
    ServerFailedError,
    as_server_user,
)

MODES = ("session", "transaction")
"""How it pools; the third, a session for each statement, can serve no transaction of several."""
_TIMEOUT_S = 30


def pgbouncer() -> Path | None:
    """The program, None when it is not installed."""
    found = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    return Path(found) if found else None


@dataclass(kw_only=True)
class PgBouncer:
    """A pooler; entering starts it, leaving ends it.

    :param databases: by the name that clients ask for: the database, and one of :data:`MODES`.
    :param directory: an empty one, for its configuration and its log.
    :raises ServerFailedError: it does not start.
    """

    program: Path
    server: PostgresqlServer
    databases: Mapping[str, tuple[str, str]]
    directory: Path
    port: int = field(default_factory=free_port)

    def __enter__(self) -> Self:
        users = self.directory / "users"
        users.write_text(f'"{USER}" "{self.server.password}"\n')
        settings = self.directory / "pgbouncer.ini"
        settings.write_text(self._settings(users))
        for path in (users, settings):
            path.chmod(0o600)
        command = [str(self.program), "--quiet", str(settings)]
        if os.geteuid() == 0:
            for path in (self.directory, users, settings):
                shutil.chown(path, SERVER_USER)
            command = [*as_server_user(self.directory), *command]
        self._process = subprocess.Popen(command, cwd=self.directory, stdin=subprocess.DEVNULL)
        self._wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()  # which of its signals means "at once" depends on its version
        self._process.wait(_TIMEOUT_S)

    def url(self, database: str, options: str = "?pooled=true") -> str:
        """The store's URL of *database*, by a name of the pooler's own."""
        return self.server.url(database, port=self.port, options=options)

    def _settings(self, users: Path) -> str:
        server = f"host=127.0.0.1 port={self.server.port}"
        databases = [
            f"{name} = {server} dbname={database} pool_mode={mode}"
            for name, (database, mode) in self.databases.items()
        ]
        settings = {
            "listen_addr": "127.0.0.1",
            "listen_port": self.port,
            "unix_socket_dir": "",
            "auth_type": "plain",
            "auth_file": users,
            "logfile": self.directory / "log",
            "max_client_conn": 500,
            "default_pool_size": 30,
        }
        lines = [f"{name} = {value}" for name, value in settings.items()]
        return "\n".join(["[databases]", *databases, "[pgbouncer]", *lines, ""])

    def _wait(self) -> None:
        deadline = time.monotonic() + _TIMEOUT_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            except OSError as error:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    log = self.directory / "log"
                    told = log.read_text()[-2000:] if log.exists() else ""
                    raise ServerFailedError(f"PgBouncer does not start: {told}") from error
                time.sleep(0.01)
            else:
                return
