"""A private PostgreSQL: a real server with a data directory, a port and a password of its own.

PostgreSQL refuses to run as root: then everything is done by Debian's user ``postgres``, who may pass through
folders that only root may enter.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import stat
import subprocess
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from tests.servers.ports import free_port

if TYPE_CHECKING:
    import psycopg

USER = "epochs"
SERVER_USER = "postgres"
_BINARIES = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[4]))
_TIMEOUT_S = 180
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "max_connections": "100",
    "unix_socket_directories": "",
    "shared_buffers": "32MB",
    "full_page_writes": "off",
}


def binaries() -> Path | None:
    """The directory of the newest server that is installed: Debian's, or the one on PATH."""
    if _BINARIES:
        return _BINARIES[-1].parent
    found = shutil.which("initdb")
    return Path(found).parent if found else None


def as_server_user(directory: Path) -> list[str]:
    """The command that runs another one as the server's user in *directory*, through folders that are closed to it."""
    closed = any(not folder.stat().st_mode & stat.S_IXOTH for folder in directory.resolve().parents)
    passing = [f"--{way}-caps=+dac_override" for way in ("inh", "ambient")] if closed else []
    return ["setpriv", f"--reuid={SERVER_USER}", f"--regid={SERVER_USER}", "--init-groups", *passing, "--"]


class ServerFailedError(RuntimeError):
    """A server's program did not do what it was asked for; holds the command and the end of its log."""


@dataclass(frozen=True, kw_only=True)
class PostgresqlServer:
    """A server; entering makes its data directory and starts it, leaving ends it.

    :param programs: directory of ``initdb`` and ``pg_ctl``, as :func:`binaries` finds it.
    :param directory: an empty one, for its data, its log and its password.
    :param environment: added to that of its processes.
    :raises ServerFailedError: it does not start.
    """

    programs: Path
    directory: Path
    port: int = field(default_factory=free_port)
    password: str = field(default_factory=secrets.token_hex)
    environment: Mapping[str, str] = field(default_factory=dict)

    def __enter__(self) -> Self:
        self.create()
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.running:
            self.stop("immediate")

    def create(self) -> None:
        """Make its data directory."""
        secret = self.directory / "password"
        secret.touch(mode=0o600)
        secret.write_text(self.password)
        if os.geteuid() == 0:
            for path in (self.directory, secret):
                shutil.chown(path, SERVER_USER)
        self._run(
            "initdb", f"--username={USER}", f"--pwfile={secret}", "--auth=scram-sha-256", "--no-sync",
            "--encoding=UTF8", "--locale=C.UTF-8",
        )  # fmt: skip

    @property
    def data(self) -> Path:
        return self.directory / "data"

    @property
    def running(self) -> bool:
        """Whether it was started and has not ended."""
        try:
            os.kill(self._pid(), 0)
        except (FileNotFoundError, ProcessLookupError):
            return False
        return True

    def start(self) -> None:
        """Start it and wait until it answers."""
        settings = {**_SETTINGS, "port": str(self.port)}
        options = " ".join(f"-c {name}={value}" for name, value in settings.items())
        self._run("pg_ctl", "-w", "-s", f"--log={self.directory / 'log'}", f"--options={options}", "start")

    def stop(self, mode: str = "fast") -> None:
        """Stop it: ``fast`` rolls back what runs, ``immediate`` is a crash."""
        self._run("pg_ctl", "-w", "-s", f"--mode={mode}", "stop")

    def end_at_once(self, number: signal.Signals) -> None:
        """Signal the server itself, which is quicker than :meth:`stop`, and wait for its end.

        :param number: SIGINT ends it as ``fast`` does, SIGQUIT as ``immediate``.
        """
        os.kill(self._pid(), number)
        self._wait(lambda: not self.running, "end")

    def _wait(self, done: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + _TIMEOUT_S
        while not done():
            if time.monotonic() > deadline:
                raise ServerFailedError(f"the server did not {what} within {_TIMEOUT_S} s: {self._log()}")
            time.sleep(0.002)

    def restart(self, mode: str = "fast") -> None:
        self.stop(mode)
        self.start()

    # --- a standby -------------------------------------------------------------------------------------------

    def standby(self, directory: Path) -> PostgresqlServer:
        """Start a hot standby that follows this server, asynchronously, in the empty *directory*; return it."""
        if os.geteuid() == 0:
            shutil.chown(directory, SERVER_USER)
        copy = replace(self, directory=directory, port=free_port())
        self._run(
            "pg_basebackup", "--host=127.0.0.1", f"--port={self.port}", f"--username={USER}", "--checkpoint=fast",
            "--wal-method=stream", "--write-recovery-conf", "--no-sync", data=copy.data, password=self.password,
        )  # fmt: skip
        copy.start()
        return copy

    def end_receiving(self) -> None:
        """Stop the process that receives from the primary, as a network that swallows everything would."""
        with self.connect() as connection:
            found = connection.execute("SELECT pid FROM pg_stat_wal_receiver").fetchone()
        assert found is not None, "it follows no primary"
        os.kill(int(str(found[0])), signal.SIGSTOP)

    def promote(self) -> None:
        """Make a standby the primary, from what it has received."""
        with self.connect() as connection:
            found = connection.execute("SELECT pid FROM pg_stat_wal_receiver").fetchone()
        if found is not None:
            began = self._beginnings()
            os.kill(int(str(found[0])), signal.SIGKILL)  # one that is stopped would not hear of it
            self._wait(
                lambda: self._beginnings() > began, "begin again"
            )  # before, it may not hear of a promotion
        self._run("pg_ctl", "-w", "-s", "promote")

    def _beginnings(self) -> int:
        """Return the number of starts as a standby; the crash of a process causes another one."""
        return (self.directory / "log").read_text(errors="replace").count("accept read-only connections")

    def url(self, database: str, *, port: int | None = None, options: str = "") -> str:
        """The store's URL of *database*."""
        return (
            f"postgresql+psycopg://{USER}:{self.password}@127.0.0.1:{port or self.port}/{database}{options}"
        )

    def connect(self, database: str = "postgres") -> psycopg.Connection[tuple[object, ...]]:
        """Connect as an administrator would, each statement for itself."""
        import psycopg

        return psycopg.connect(
            host="127.0.0.1",
            port=self.port,
            user=USER,
            password=self.password,
            dbname=database,
            autocommit=True,
        )

    def create_database(self, *, template: str | None = None) -> str:
        """Make an empty database, or one like *template*, to which no process is connected; return its name."""
        name = f"t{uuid.uuid4().hex}"
        with self.connect() as connection:
            connection.execute(f"CREATE DATABASE {name}" + (f" TEMPLATE {template}" if template else ""))
        return name

    def kill_sessions(self, database: str, number: signal.Signals | None = None) -> int:
        """End all sessions of *database*: politely, or their processes with the signal *number*."""
        with self.connect() as connection:
            found = connection.execute(
                "SELECT pid FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()", (database,)
            ).fetchall()
            for (pid,) in found:
                if number is None:
                    connection.execute("SELECT pg_terminate_backend(%s)", (pid,))
                else:
                    os.kill(int(str(pid)), number)
        return len(found)

    def _run(self, program: str, *arguments: str, data: Path | None = None, password: str = "") -> None:
        command = [str(self.programs / program), "-D", str(data or self.data), *arguments]
        if os.geteuid() == 0:
            command = [*as_server_user(self.directory), *command]
        patience = {"PGCTLTIMEOUT": str(_TIMEOUT_S - 10)}  # its own 60 are too few on a busy machine
        done = subprocess.run(
            command,
            cwd="/",
            env={
                **os.environ,
                **patience,
                **self.environment,
                **({"PGPASSWORD": password} if password else {}),
            },
            capture_output=program == "initdb",
            check=False,
            timeout=_TIMEOUT_S,
            stdin=subprocess.DEVNULL,
        )
        if done.returncode != 0:
            raise ServerFailedError(f"{' '.join(command)}: {done.stderr!r} {self._log()}")

    def _pid(self) -> int:
        """:raises FileNotFoundError: it does not run."""
        return int((self.data / "postmaster.pid").read_text().split()[0])

    def _log(self) -> str:
        log = self.directory / "log"
        return log.read_text()[-2000:] if log.exists() else ""
