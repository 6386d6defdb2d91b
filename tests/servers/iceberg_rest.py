"""A private Iceberg REST catalog: the handlers of requests in Iceberg's own jar, its tables in the server's memory."""

from __future__ import annotations

import subprocess
from pathlib import Path

from demo.spark_connect import spark_home
from tests.servers.managed import ManagedServer
from tests.servers.ports import free_port

PROGRAM = Path(__file__).with_name("RestCatalogServer.java")
JAVA = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")


class RestCatalogServer(ManagedServer):
    """A running REST catalog at :attr:`uri`; its routes depend on the warehouse that a client names.

    :param jar: Iceberg's Spark runtime, which holds the handlers.
    :param home: its classes lie there, and its log goes to ``home/logs``.
    """

    def __init__(self, jar: Path, home: Path) -> None:
        port = free_port()
        self._compile = [
            "javac",
            "--release",
            "17",
            "-proc:none",
            "-cp",
            str(jar),
            "-d",
            f"{home}/classes",
            str(PROGRAM),
        ]
        logging = spark_home() / "jars" / "slf4j-api-*.jar"
        (found,) = logging.parent.glob(logging.name)
        command = ["java", *JAVA, "-cp", f"{home}/classes:{jar}:{found}"]
        program = f"org.apache.iceberg.rest.{PROGRAM.stem}"
        super().__init__(name="rest", command=[*command, program, str(port)], port=port, home=home)
        self.uri = f"http://127.0.0.1:{port}"

    def start(self) -> None:
        """Compile it, since Iceberg's handlers are open to their own package alone, and start it."""
        subprocess.run(self._compile, check=True)
        super().start()

    def url(self, name: str = "lake", user: str = "") -> str:
        """Return the address of the catalog *name* for the package. :param user: ``id:secret``."""
        return f"rest://{f'{user}@' if user else ''}127.0.0.1:{self.port}?name={name}&https=off"
