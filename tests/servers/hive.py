"""A private Hive metastore: the server that pyspark's own jars hold, its database in its memory."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self
from xml.sax.saxutils import escape

from hive_metastore import ThriftHiveMetastore
from thrift.protocol import TBinaryProtocol
from thrift.transport import TSocket, TTransport

from demo.processes import ManagedProcess, wait_for_port
from tests.servers.ports import free_port

READY_TIMEOUT_S = 120.0
JAVA = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
SETTINGS = {
    "datanucleus.connectionPoolingType": "NONE",
    "datanucleus.schema.autoCreateAll": "true",
    "hive.async.log.enabled": "false",
    "hive.in.test": "true",  # makes the tables of locks, too, for which the jars have no script
    "hive.metastore.schema.verification": "false",
    "javax.jdo.option.ConnectionURL": "jdbc:derby:memory:metastore;create=true",
}


class HiveMetastore:
    """A running metastore at :attr:`url`.

    :param home: its settings, its log (``home/logs``) and its own warehouse lie there.
    """

    def __init__(self, home: Path) -> None:
        self.port = free_port()
        self.url = f"hive://127.0.0.1:{self.port}"
        self.thrift = f"thrift://127.0.0.1:{self.port}"
        settings = {
            **SETTINGS,
            "hive.metastore.warehouse.dir": f"file://{home}/warehouse",
            "hive.exec.scratchdir": f"file://{home}/scratch",
        }
        _write_settings(home / "conf" / "hive-site.xml", settings)
        spec = find_spec("pyspark")
        assert spec is not None
        assert spec.origin is not None
        jars = Path(spec.origin).parent / "jars" / "*"
        folders = (
            f"-Djava.io.tmpdir={home}",
            f"-Duser.home={home}",
            f"-Dderby.stream.error.file={home}/derby.log",
        )
        main = "org.apache.hadoop.hive.metastore.HiveMetaStore"
        self._process = ManagedProcess(
            name="hive",
            command=["java", *JAVA, *folders, "-cp", f"{home}/conf:{jars}", main, "-p", str(self.port)],
            environment=os.environ,
            home=home,
        )

    def start(self) -> None:
        """:raises ProcessFailedError: it does not get ready."""
        self._process.start()
        wait_for_port(self._process, self.port, timeout_s=READY_TIMEOUT_S)

    def stop(self) -> None:
        self._process.stop()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @contextmanager
    def client(self) -> Iterator[Any]:
        """Return the metastore as its administrator sees it."""
        transport = TTransport.TBufferedTransport(TSocket.TSocket("127.0.0.1", self.port))
        transport.open()
        try:
            yield ThriftHiveMetastore.Client(TBinaryProtocol.TBinaryProtocol(transport))
        finally:
            transport.close()

    def clear(self) -> None:
        """Drop all databases with their tables."""
        with self.client() as client:
            for name in client.get_all_databases():
                if name != "default":
                    client.drop_database(name, False, True)


def _write_settings(path: Path, settings: Mapping[str, str]) -> None:
    path.parent.mkdir(parents=True)
    properties = "".join(
        f"<property><name>{name}</name><value>{escape(value)}</value></property>"
        for name, value in settings.items()
    )
    path.write_text(f"<configuration>{properties}</configuration>")
