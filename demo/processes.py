"""Processes that a demo or a system test owns: each with a log of its own, and none left behind.

Every process started here inherits :data:`MARK`, the home it belongs to. Airflow's task processes and Spark's JVMs
leave their parents' process groups, so the mark, not the tree, says what must end with the home.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import psutil

MARK = "EPOCHS_DEMO_HOME"
"""Environment variable that names the home a process was started for."""

STOP_GRACE_S = 12.0
"""Seconds between asking a process to end and ending it."""


class ProcessFailedError(RuntimeError):
    """A process ended, or did not get ready, while it was needed.

    :param name: the process's name.
    :param reason: what was seen.
    :param log: its log file.
    """

    def __init__(self, *, name: str, reason: str, log: Path) -> None:
        self.name = name
        self.log = log
        super().__init__(f"{name} {reason}; the end of {log}:\n{_tail(log)}")


class ManagedProcess:
    """One process: a command that can be started, killed and started again.

    :param name: used in messages and for the log's name.
    :param command: program and arguments.
    :param environment: the whole environment of the process; :data:`MARK` is added.
    :param home: the home it belongs to; its log is ``home/logs/<name>.log``.
    """

    def __init__(
        self, *, name: str, command: Sequence[str], environment: Mapping[str, str], home: Path
    ) -> None:
        self.name = name
        self.log = home / "logs" / f"{name}.log"
        self._command = list(command)
        self._environment = {**environment, MARK: str(home)}
        self._home = home
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The running process's id.

        :raises ProcessFailedError: when it was never started.
        """
        if self._process is None:
            raise ProcessFailedError(name=self.name, reason="was not started", log=self.log)
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it, appending to its log; does nothing when it runs."""
        if self.running:
            return
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                env=self._environment,
                cwd=self._home,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def run(self) -> None:
        """Start it and wait for its end.

        :raises ProcessFailedError: when it ends with another code than 0.
        """
        self.start()
        self.wait()

    def wait(self) -> None:
        """Wait for its end.

        :raises ProcessFailedError: when it ends with another code than 0.
        """
        code = self._process.wait() if self._process is not None else None
        if code != 0:
            raise ProcessFailedError(name=self.name, reason=f"ended with code {code}", log=self.log)

    def check(self) -> None:
        """Say so when it has ended.

        :raises ProcessFailedError: when it does not run.
        """
        if not self.running:
            code = self._process.returncode if self._process is not None else None
            raise ProcessFailedError(name=self.name, reason=f"ended with code {code}", log=self.log)

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send one signal to this process alone, as a crash of it would be."""
        if self.running:
            os.kill(self.pid, number)
            if number == signal.SIGKILL and self._process is not None:
                self._process.wait()

    def stop(self, grace_s: float = STOP_GRACE_S) -> None:
        """Ask it to end, then end it and its process group."""
        ask_to_end([self])
        end([self], grace_s=grace_s)


def ask_to_end(processes: Iterable[ManagedProcess]) -> None:
    """Send SIGTERM to each process that runs."""
    for process in processes:
        process.kill(signal.SIGTERM)


def end(processes: Iterable[ManagedProcess], *, grace_s: float = STOP_GRACE_S) -> None:
    """Wait for processes that were asked to end; after the grace they are killed, with their groups."""
    deadline = time.monotonic() + grace_s
    for process in processes:
        while process.running and time.monotonic() < deadline:
            time.sleep(0.05)
        if process.running:
            os.killpg(process.pid, signal.SIGKILL)
            process.kill()


def owned_by(home: Path) -> list[psutil.Process]:
    """List the live processes, other than this one, that belong to a home.

    Airflow's task processes write their title over their environment, and with it over the mark; they are known by
    that title and by the folder that they work in.
    """
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and _belongs(process, home):
                found.append(process)
        except psutil.Error:
            continue
    return found


def end_owned_by(home: Path, *, grace_s: float = STOP_GRACE_S) -> int:
    """End every process that carries a home's mark, whichever its parent is.

    :returns: how many there were.
    """
    survivors = owned_by(home)
    for process in survivors:
        _signal(process, signal.SIGTERM)
    _, alive = psutil.wait_procs(survivors, timeout=grace_s)
    for process in alive:
        _signal(process, signal.SIGKILL)
    psutil.wait_procs(alive, timeout=grace_s)
    return len(survivors)


def wait_for_port(process: ManagedProcess, port: int, *, timeout_s: float) -> None:
    """Wait until a process listens on a port; that another one answers there is no sign of it.

    :raises ProcessFailedError: when it ends, or the time is over, before that.
    """
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        process.check()
        if listens(process.pid, port):
            return
        time.sleep(0.2)
    reason = f"did not listen on port {port} within {timeout_s:.0f} s"
    raise ProcessFailedError(name=process.name, reason=reason, log=process.log)


def listens(pid: int, port: int) -> bool:
    """Whether a process, or one that it started, takes connections on a port."""
    try:
        process = psutil.Process(pid)
        return any(
            connection.status == psutil.CONN_LISTEN and connection.laddr.port == port
            for listener in (process, *process.children(recursive=True))
            for connection in listener.net_connections(kind="tcp")
        )
    except psutil.Error:
        return False  # one of them has just ended


def _belongs(process: psutil.Process, home: Path) -> bool:
    if process.status() == psutil.STATUS_ZOMBIE:
        return False
    titled = (process.cmdline() or [""])[0].startswith("airflow ")
    return bool(process.environ().get(MARK) == str(home) or (titled and process.cwd() == str(home)))


def _signal(process: psutil.Process, number: int) -> None:
    try:
        process.send_signal(number)
    except psutil.NoSuchProcess:
        return


def _tail(log: Path, lines: int = 15) -> str:
    if not log.exists():
        return "(no log)"
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
