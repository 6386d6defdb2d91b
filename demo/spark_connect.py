"""Spark as the demo runs it: settings for cheap starts, and a Connect server that stays up."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path

from demo.ports import Endpoint
from demo.processes import ManagedProcess

READY_TIMEOUT_S = 90.0
QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"
"""A short job spends its time starting: one compiler stage and the simplest collector start soonest."""

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    # A day is a thousand rows: compiling a plan costs more than running it.
    "spark.sql.codegen.wholeStage": "false",
    "spark.driver.defaultJavaOptions": QUICK_JVM,
}
"""spark-defaults.conf of the demo; every job, with the package or without, gets the same."""

LOGGING = """\
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
"""


def spark_home() -> Path:
    """Find Spark inside the installed pyspark, without importing it.

    :raises ModuleNotFoundError: when pyspark is not installed.
    """
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("pyspark is not installed in this environment; run `make prepare`")
    return Path(spec.submodule_search_locations[0])


def write_configuration(folder: Path, more: Mapping[str, str] | None = None) -> None:
    """Write spark-defaults.conf and log4j2.properties into a folder for SPARK_CONF_DIR.

    :param more: settings beside those of every demo.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f"{name} {value}" for name, value in {**SETTINGS, **(more or {})}.items()]
    (folder / "spark-defaults.conf").write_text("\n".join(lines) + "\n")
    (folder / "log4j2.properties").write_text(LOGGING)


class SparkConnectServer:
    """A Spark Connect server in the foreground, on 127.0.0.1, that can be killed and started again.

    :param home: its log goes to ``home/logs``.
    :param port: where clients connect.
    :param environment: of the process; SPARK_CONF_DIR in it names the settings.
    :param master: Spark's master.
    """

    def __init__(
        self, *, home: Path, port: int, environment: Mapping[str, str], master: str = "local[2]"
    ) -> None:
        self.port = port
        self.endpoint = Endpoint(number=port, purpose="the Spark Connect server", setting="DEMO_CONNECT_PORT")
        self.url = f"sc://127.0.0.1:{port}"
        self.process = ManagedProcess(
            name="spark-connect",
            command=[
                str(spark_home() / "bin" / "spark-submit"),
                "--class",
                "org.apache.spark.sql.connect.service.SparkConnectServer",
                "--name",
                "epochs-demo-connect",
                "--master",
                master,
                "--conf",
                "spark.connect.grpc.binding.address=127.0.0.1",
                "--conf",
                f"spark.connect.grpc.binding.port={port}",
                "spark-internal",
            ],
            environment={**environment, "SPARK_HOME": str(spark_home())},
            home=home,
        )

    def start(self) -> None:
        """Start it without waiting; does nothing when it runs."""
        self.process.start()

    def wait_until_ready(self, *, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Wait until it takes connections.

        :raises PortInUseError: when another process has taken its port meanwhile.
        :raises ProcessFailedError: when it ends, or the time is over, before that.
        """
        self.endpoint.wait_for(self.process, timeout_s=timeout_s)

    def restart(self) -> None:
        """Kill it as a crash would, then bring it back."""
        self.process.kill()
        self.start()
        self.wait_until_ready()

    def stop(self) -> None:
        """Stop it."""
        self.process.stop()
