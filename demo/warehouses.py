"""Places of the demo's tables: a folder, or a bucket of an S3 server that the demo starts.

What differs between the two is here: what processes are told, and what Spark is given. DAGs, jobs and readers are the
same, but that statements write a table where Spark has Iceberg's runtime.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from demo.stores import MissingProgramError
from tests.servers import aws
from tests.servers.aws import S3Emulator

JARS = ("ICEBERG_SPARK_RUNTIME", "HADOOP_AWS", "AWS_SDK")
"""Jars with which Spark reads and runs statements on S3: names in ``versions.env``."""


class DemoWarehouse(ABC):
    """A warehouse of the demo's own.

    :param home: the demo's home.
    """

    name: ClassVar[str]
    """As ``--warehouse`` and ``make demo WAREHOUSE=`` have it."""
    pace: ClassVar[float] = 1.0
    """Share of a folder's speed: scales the promised reads down and the budgets up."""
    keeps_tables: ClassVar[bool] = True
    """True if the tables outlast a restart."""

    def __init__(self, *, home: Path) -> None:
        self.home = home

    @property
    @abstractmethod
    def uri(self) -> str:
        """URI under which the package's tables lie."""

    @property
    @abstractmethod
    def twin(self) -> str:
        """Folder or URI under which the naive twin's tables lie."""

    @property
    def environment(self) -> Mapping[str, str]:
        """What every process is told that opens files."""
        return {}

    @property
    def spark_settings(self) -> Mapping[str, str]:
        """Settings with which Spark opens the files."""
        return {}

    def require(self) -> None:  # noqa: B027 - a folder needs nothing
        """Look for the programs that it needs.

        :raises MissingProgramError: one is not installed.
        """

    def start(self) -> None:  # noqa: B027 - nor is anything to be started
        """Start its server, and make it ready for tables.

        :raises ProcessFailedError: the server does not start.
        """

    def stop(self) -> None:  # noqa: B027
        """Stop its server; does nothing when none runs."""

    def check(self) -> None:  # noqa: B027
        """Say so when its server has ended by itself.

        :raises ProcessFailedError: naming its log.
        """


class LocalWarehouse(DemoWarehouse):
    """Folders of the home, as on a laptop."""

    name = "local"

    @property
    def uri(self) -> str:
        return (self.home / "epochs" / "warehouse").as_uri()

    @property
    def twin(self) -> str:
        return str(self.home / "twin")


class S3Warehouse(DemoWarehouse):
    """A bucket in an emulator, which keeps objects in its memory: they end with it."""

    name = "s3"
    pace = 0.25
    keeps_tables = False
    bucket = "demo"

    def __init__(self, *, home: Path) -> None:
        super().__init__(home=home)
        self._server = S3Emulator(home)

    @property
    def uri(self) -> str:
        return f"s3://{self.bucket}/epochs"

    @property
    def twin(self) -> str:
        return f"s3://{self.bucket}/twin"

    @property
    def environment(self) -> Mapping[str, str]:
        return {**self._server.environment, "NYC_STATEMENTS": "1"}

    @property
    def spark_settings(self) -> Mapping[str, str]:
        """Hadoop's file system for ``s3://``; the keys are in the environment.

        The jars are on the class path, since Spark would copy those of ``spark.jars``, 690 MB, for each program.
        """
        return {
            "spark.driver.extraClassPath": os.pathsep.join(map(str, pinned_jars())),
            "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
            "spark.hadoop.fs.s3a.endpoint": self._server.url,
            "spark.hadoop.fs.s3a.endpoint.region": self._server.environment["AWS_REGION"],
            "spark.hadoop.fs.s3a.path.style.access": "true",
        }

    def require(self) -> None:
        missing = [path.name for path in pinned_jars() if not path.exists()]
        missing += [] if aws.PYTHON.exists() else ["the S3 emulator"]
        if missing:
            raise MissingProgramError(
                f"missing: {', '.join(missing)}. `make demo WAREHOUSE=s3` fetches what Maven Central and PyPI have"
            )

    def start(self) -> None:
        self._server.start()
        self._server.make_bucket(self.bucket)

    def stop(self) -> None:
        self._server.stop()

    def check(self) -> None:
        self._server.check()


def pinned_jars() -> list[Path]:
    """Where ``scripts/prepare-iceberg`` puts the jars."""
    lines = (aws.ROOT / "versions.env").read_text().splitlines()
    pins = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    named = (pins[name].split(":") for name in JARS)
    return [aws.ROOT / ".jars" / f"{module}-{revision}.jar" for _, module, revision in named]


WAREHOUSES: Mapping[str, type[DemoWarehouse]] = {
    warehouse.name: warehouse for warehouse in (LocalWarehouse, S3Warehouse)
}
"""The warehouses that a demo can run on."""
