"""A private ZooKeeper, one server or an ensemble of three: real servers with directories and ports of their own.

They run ZooKeeper 3.9.5 from Maven Central, with the libraries of pyspark's own jar folder. Where Maven
Central cannot be reached, pyspark's older ZooKeeper serves, and a warning says so by name.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from time import monotonic, sleep
from typing import Self

from tests.servers.ports import free_port
from tests.servers.postgresql import ServerFailedError

log = logging.getLogger(__name__)

VERSION = "3.9.5"
"""The oldest version that the store is meant for; ``versions.env`` has it too, and a test compares them."""
SHA256 = {
    "zookeeper": "936d025db1a85f085edea25048c3f5b3de5fc29329c371a10925e3b78b0b38a0",
    "zookeeper-jute": "abcbc7f9d6c493daa118da6fa3061a201e2c521217526e8535adfb56b629e52a",
}
LIBRARIES = (
    "slf4j-api-*", "log4j-slf4j2-impl-*", "log4j-api-*", "log4j-core-*", "netty-handler-4*", "netty-buffer-*",
    "netty-common-*", "netty-transport-4*", "netty-transport-native-unix-common-*", "netty-transport-classes-epoll-*",
    "netty-resolver-4*", "netty-codec-4*", "netty-codec-base-*", "metrics-core-*", "snappy-java-*",
    "audience-annotations-*", "commons-cli-*",
)  # fmt: skip
"""What ZooKeeper needs of pyspark's jar folder."""

JAVA = (
    "-Xmx512m", "-Xms32m", "-Xss512k", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
    "-Dzookeeper.jmx.log4j.disable=true", "-Dzookeeper.preAllocSize=4096",
)  # fmt: skip
_SETTINGS = {
    "tickTime": "500",
    "clientPortAddress": "127.0.0.1",
    "admin.enableServer": "false",
    "4lw.commands.whitelist": "ruok,srvr,mntr,cons",
    "maxClientCnxns": "60",
    "minSessionTimeout": "1000",
    "maxSessionTimeout": "60000",
    "forceSync": "yes",
    "initLimit": "10",
    "syncLimit": "4",
}
_LOGGING = """status=error
appender.c.type=Console
appender.c.name=c
appender.c.layout.type=PatternLayout
appender.c.layout.pattern=%d{ISO8601} %p %c{1} - %m%n
rootLogger.level=warn
rootLogger.appenderRef.c.ref=c
"""
_LONGEST_START_S = 60.0
_LONGEST_DOWNLOAD_S = 60.0


def cache_directory() -> Path:
    """Where what was fetched once is kept."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "airflow-provider-epochs" / "jars"


@cache
def class_path() -> str | None:
    """Return the class path of a ZooKeeper server; None when there is neither Java nor pyspark."""
    spec = find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations or shutil.which("java") is None:
        return None
    folder = Path(spec.submodule_search_locations[0]) / "jars"
    own = _from_maven(folder) or [path for name in SHA256 for path in folder.glob(f"{name}-3.*.jar")]
    libraries = {path for pattern in LIBRARIES for path in folder.glob(f"{pattern}.jar")}
    return ":".join(str(path) for path in (*own, *sorted(libraries)))


def _from_maven(folder: Path) -> list[Path]:
    """Return ZooKeeper's own jars, fetched once; nothing, and a warning, where Maven Central cannot be reached."""
    paths = []
    for name, checksum in SHA256.items():
        path = cache_directory() / f"{name}-{VERSION}.jar"
        try:
            if not path.exists() or _sha256(path.read_bytes()) != checksum:
                _fetch(folder, name, path)
        except (OSError, StopIteration, subprocess.SubprocessError) as error:
            log.warning("no ZooKeeper %s from Maven Central (%s): pyspark's own serves", VERSION, error)
            return []
        if _sha256(path.read_bytes()) != checksum:
            raise ServerFailedError(f"{path}: another checksum than {checksum}")
        paths.append(path)
    return paths


def _fetch(folder: Path, name: str, path: Path) -> None:
    """Let Ivy, which pyspark brings along, fetch a jar from Maven Central or from what the host has instead of it."""
    with tempfile.TemporaryDirectory(prefix="epochs-ivy-") as directory:
        command = [
            "java", "-jar", str(next(folder.glob("ivy-*.jar"))), "-error", "-cache", f"{directory}/cache",
            "-dependency", "org.apache.zookeeper", name, VERSION, "-confs", "master", "-notransitive",
            "-retrieve", f"{directory}/[artifact]-[revision].[ext]",
        ]  # fmt: skip
        subprocess.run(
            command, check=True, capture_output=True, timeout=_LONGEST_DOWNLOAD_S, stdin=subprocess.DEVNULL
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
        shutil.copyfile(Path(directory) / path.name, partial)
        partial.replace(path)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@dataclass(kw_only=True)
class ZookeeperServer:
    """One server; entering starts it, leaving kills it.

    :param directory: an empty one, for its data, settings and log.
    :param settings: what ``zoo.cfg`` has in addition. :param java: further options of Java.
    :param environment: added to that of its process.
    :raises ServerFailedError: it does not start.
    """

    directory: Path
    port: int = field(default_factory=free_port)
    settings: Mapping[str, str] = field(default_factory=dict)
    java: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    number: int | None = None
    """Its number in an ensemble."""
    process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def running(self) -> bool:
        """Whether it was started and has not ended."""
        return self.process is not None and self.process.poll() is None

    @property
    def hosts(self) -> str:
        """What a client connects to."""
        return f"127.0.0.1:{self.port}"

    def url(self, chroot: str | None = None, options: str = "") -> str:
        """The URL of a store; without *chroot*, of a new one."""
        return f"zookeeper://{self.hosts}/{chroot or 'epochs-' + uuid.uuid4().hex}{options}"

    def start(self, *, wait: bool = True) -> None:
        """Start it on the data that it has, and wait until it answers ``imok``."""
        data = self.directory / "data"
        data.mkdir(parents=True, exist_ok=True)
        if self.number is not None:
            (data / "myid").write_text(str(self.number))
        (self.directory / "log4j2.properties").write_text(_LOGGING)
        settings = {**_SETTINGS, "dataDir": str(data), "clientPort": str(self.port), **self.settings}
        configuration = self.directory / "zoo.cfg"
        configuration.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        main = "ZooKeeperServerMain" if self.number is None else "quorum.QuorumPeerMain"
        command = [
            "java", *JAVA, *self.java, f"-Dlog4j2.configurationFile={self.directory / 'log4j2.properties'}",
            "-cp", str(class_path()), f"org.apache.zookeeper.server.{main}", str(configuration),
        ]  # fmt: skip
        with (self.directory / "log").open("ab") as output:
            self.process = subprocess.Popen(
                command,
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                cwd=self.directory,
                env={**os.environ, **self.environment},
                start_new_session=True,
            )
        if wait:
            self.wait(lambda: self.word(b"ruok") == "imok" and (self.number is not None or bool(self.role())))

    def wait(self, ready: Callable[[], bool]) -> None:
        """Wait until *ready* says so.

        :raises ServerFailedError: it ended, or it takes too long.
        """
        until = monotonic() + _LONGEST_START_S
        while not ready():
            if self.process is None or self.process.poll() is not None or monotonic() > until:
                raise ServerFailedError(f"ZooKeeper in {self.directory}: {self._log()}")
            sleep(0.02)

    def word(self, word: bytes) -> str:
        """Return the answer to a four-letter word, empty when there is none."""
        answer = b""
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1) as connection:
            connection.sendall(word)
            while data := connection.recv(65_536):
                answer += data
        return answer.decode(errors="replace")

    def role(self) -> str:
        """Return ``standalone``, ``leader``, ``follower``, or nothing while it is none."""
        lines = self.word(b"srvr").splitlines()
        return next((line.split()[1] for line in lines if line.startswith("Mode:")), "")

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """End its process with the signal *number*; nothing happens when it does not run."""
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(30)
            self.process = None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal and wait for nothing: SIGSTOP makes it silent, SIGCONT wakes it."""
        if self.process is not None:
            self.process.send_signal(number)

    def restart(self) -> None:
        """Crash it and start it again on the same data."""
        self.kill()
        self.start()

    def _log(self) -> str:
        path = self.directory / "log"
        return path.read_text(errors="replace")[-3000:] if path.exists() else "no log"


class ZookeeperEnsemble:
    """Three servers; entering starts them, leaving kills them.

    :param directory: with a directory for each. :param environment: added to that of their processes.
    """

    def __init__(
        self, directory: Path, size: int = 3, *, environment: Mapping[str, str] | None = None
    ) -> None:
        ports = [free_port() for _ in range(3 * size)]
        numbers = range(1, size + 1)
        members = {
            f"server.{number}": f"127.0.0.1:{ports[size + 2 * number - 2]}:{ports[size + 2 * number - 1]}"
            for number in numbers
        }
        settings = {**members, "quorumListenOnAllIPs": "false"}
        self.servers = [
            ZookeeperServer(
                directory=directory / str(number),
                port=ports[number - 1],
                settings=settings,
                environment=environment or {},
                number=number,
            )
            for number in numbers
        ]

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for server in self.servers:
            server.kill()

    def start(self) -> None:
        """Start those that do not run, on the data that they have, and wait until all work together."""
        for server in self.servers:
            if not server.running:
                server.start(wait=False)
        self.wait()

    @property
    def hosts(self) -> str:
        return ",".join(server.hosts for server in self.servers)

    def url(self, chroot: str | None = None, options: str = "") -> str:
        """The URL of a store; without *chroot*, of a new one."""
        return f"zookeeper://{self.hosts}/{chroot or 'epochs-' + uuid.uuid4().hex}{options}"

    def wait(self) -> None:
        """Wait until one leads and all others follow."""
        wanted = ["follower"] * (len(self.servers) - 1) + ["leader"]
        self.servers[0].wait(lambda: sorted(server.role() for server in self.servers) == wanted)

    def leader(self) -> ZookeeperServer:
        """Return the server that leads; waits for one."""
        until = monotonic() + _LONGEST_START_S
        while monotonic() < until:
            for server in self.servers:
                if server.process is not None and server.role() == "leader":
                    return server
            sleep(0.02)
        raise ServerFailedError(f"no leader among {self.hosts}")

    def kill_leader(self) -> ZookeeperServer:
        """Kill the leader and return it; ``start()`` brings it back."""
        leader = self.leader()
        leader.kill()
        return leader


def expire_session(hosts: str, session: tuple[int, bytes]) -> None:
    """End a client's session behind its back: a second client takes it over and closes it."""
    from kazoo.client import KazooClient

    thief = KazooClient(hosts=hosts, client_id=session, timeout=10)
    thief.start(timeout=10)
    thief.stop()
    thief.close()
