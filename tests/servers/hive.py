"""A private Hive metastore: the server that pyspark's own jars hold, its database in its memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from hive_metastore import ThriftHiveMetastore
from thrift.protocol import TBinaryProtocol
from thrift.transport import TSocket, TTransport

from demo.spark_connect import spark_home
from tests.servers.managed import ManagedServer
from tests.servers.ports import free_port

JAVA = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
SETTINGS = {
    "datanucleus.connectionPoolingType": "NONE",
    "datanucleus.schema.autoCreateAll": "true",
    "hive.async.log.enabled": "false",
    "hive.in.test": "true",  # makes the tables of locks, too, for which the jars have no script
    "hive.metastore.schema.verification": "false",
    "javax.jdo.option.ConnectionURL": "jdbc:derby:memory:metastore;create=true",
}


class HiveMetastore(ManagedServer):
    """A running metastore at :attr:`url`.

    :param home: its settings, its log (``home/logs``) and its own warehouse lie there.
    """

    def __init__(self, home: Path) -> None:
        port = free_port()
        _write_settings(
            home / "conf" / "hive-site.xml",
            {
                **SETTINGS,
                "hive.metastore.warehouse.dir": f"file://{home}/warehouse",
                "hive.exec.scratchdir": f"file://{home}/scratch",
            },
        )
        folders = [
            f"-Djava.io.tmpdir={home}",
            f"-Duser.home={home}",
            f"-Dderby.stream.error.file={home}/derby.log",
        ]
        main = ["org.apache.hadoop.hive.metastore.HiveMetaStore", "-p", str(port)]
        command = ["java", *JAVA, *folders, "-cp", f"{home}/conf:{spark_home()}/jars/*", *main]
        super().__init__(name="hive", command=command, port=port, home=home)
        self.url = f"hive://127.0.0.1:{port}"
        self.thrift = f"thrift://127.0.0.1:{port}"

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
