"""Tables as a careful team writes them without this package: partitioned by epoch, an epoch replaced as a whole."""

# ruff: noqa: S608 - statements are made of names that stand in these tests

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "epoch INT, value BIGINT, by STRING"
CATALOG = "plain"
Row = tuple[int, int, str]
"""The epoch, a value, and the name of its writer (often empty)."""


ANYTHING = object()
"""A write that is not refused, whatever was written meanwhile."""


class Refused(Exception):
    """Another writer wrote the same epoch of the table since the job began, and the format saw it."""


class Tables(ABC):
    """The tables of one schedule. :param place: a folder of its own, whose name is the schedule's."""

    def __init__(self, spark: SparkSession, place: Path) -> None:
        self.spark = spark
        self.place = place

    def frame(self, rows: Sequence[Row]) -> DataFrame:
        """Rows to be written."""
        values = ", ".join(f"({epoch}, {value}L, '{by}')" for epoch, value, by in rows or [(0, 0, "")])
        found = self.spark.sql(f"SELECT * FROM VALUES {values} AS rows(epoch, value, by)")
        return found.where("true" if rows else "false").coalesce(1)

    def slowly(self, epoch: int, value: int) -> DataFrame:
        """One row, which takes Spark seconds to make."""
        wait = "java_method('java.lang.Thread', 'sleep', 3000L) IS NOT NULL"
        return self.frame([(epoch, value, "")]).where(wait)

    def failing(self, epoch: int) -> DataFrame:
        """Rows of one file, and an error in the task that writes the other one."""
        rows = self.spark.range(0, 2, 1, 2)
        by = "if(id = 1, string(raise_error('killed')), 'killed')"
        return rows.selectExpr(f"{epoch} AS epoch", "id AS value", f"{by} AS by")

    @abstractmethod
    def create(self, table: str) -> None:
        """Make an empty table."""

    @abstractmethod
    def drop(self, table: str) -> None:
        """Remove a table with its rows."""

    @abstractmethod
    def read(self, table: str) -> DataFrame:
        """What the table has now."""

    @abstractmethod
    def begun(self, table: str) -> object:
        """What a job notes of a table when it begins, as far as the format can compare it with what is there later."""

    @abstractmethod
    def replace(self, table: str, frame: DataFrame, since: object = ANYTHING) -> None:
        """Replace the rows of those epochs that *frame* has rows of; other epochs stay.

        :param since: what the job noted when it began. :raises Refused: another has written these epochs since.
        """

    @abstractmethod
    def overwrite(self, table: str, frame: DataFrame) -> None:
        """Put *frame* in the place of all rows."""

    @abstractmethod
    def append(self, table: str, frame: DataFrame) -> None:
        """Add rows."""

    @abstractmethod
    def add(self, table: str, amount: int) -> None:
        """Add *amount* to every value."""

    @abstractmethod
    def delete_epoch(self, table: str, epoch: int) -> None:
        """Remove an epoch's rows."""

    @abstractmethod
    def pinned(self, table: str) -> Callable[[], DataFrame]:
        """What a task keeps to read the same more than once, as far as the format has it."""

    @abstractmethod
    def held(self, table: str) -> Callable[[], DataFrame]:
        """What a long reader keeps, so that a cleanup leaves it alone, as far as the format has it."""

    @abstractmethod
    def clean(self, table: str, epoch: int) -> None:
        """Run the usual cleanup: *epoch* is old."""

    @abstractmethod
    def steps(self, table: str) -> AbstractContextManager[None]:
        """Write one table in steps that are shown when all are done; what a job left that died goes at the next."""


class ParquetTables(Tables):
    """Folders of Parquet files, with dynamic partition overwrite."""

    def __init__(self, spark: SparkSession, place: Path) -> None:
        super().__init__(spark, place)
        self._staged: set[str] = set()

    def _path(self, table: str) -> Path:
        return self.place / table

    def _target(self, table: str) -> str:
        return str(self._path(f"{table}_staged" if table in self._staged else table))

    def create(self, table: str) -> None:
        self._path(table).mkdir(parents=True)

    def drop(self, table: str) -> None:
        shutil.rmtree(self._path(table))

    def read(self, table: str) -> DataFrame:
        return self.spark.read.schema(SCHEMA).parquet(str(self._path(table))).select("epoch", "value", "by")

    def begun(self, table: str) -> object:  # noqa: ARG002 - every format has the same
        """Nothing: a folder has no version."""
        return ANYTHING

    def replace(self, table: str, frame: DataFrame, since: object = ANYTHING) -> None:  # noqa: ARG002
        writer = frame.write.mode("overwrite").option("partitionOverwriteMode", "dynamic")
        writer.partitionBy("epoch").parquet(self._target(table))

    def overwrite(self, table: str, frame: DataFrame) -> None:
        writer = frame.write.mode("overwrite").option("partitionOverwriteMode", "static")
        writer.partitionBy("epoch").parquet(self._target(table))

    def append(self, table: str, frame: DataFrame) -> None:
        frame.write.mode("append").partitionBy("epoch").parquet(self._target(table))

    def add(self, table: str, amount: int) -> None:
        rows = [(row.epoch, row.value + amount, row.by) for row in self.read(table).collect()]
        self.replace(table, self.frame(rows))

    def delete_epoch(self, table: str, epoch: int) -> None:
        shutil.rmtree(self._path(table) / f"epoch={epoch}")

    def pinned(self, table: str) -> Callable[[], DataFrame]:
        """The files are listed once."""
        frame = self.read(table)
        return lambda: frame

    def held(self, table: str) -> Callable[[], DataFrame]:
        """As pinned: no cleanup could know of it."""
        return self.pinned(table)

    def clean(self, table: str, epoch: int) -> None:
        self.delete_epoch(table, epoch)

    @contextmanager
    def steps(self, table: str) -> Iterator[None]:
        """Write into a folder beside the table, whose rows are written into it when all steps are done."""
        folder = self._path(f"{table}_staged")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        self._staged.add(table)
        try:
            yield
        finally:
            self._staged.discard(table)
        self.replace(table, self.read(f"{table}_staged"))


REFUSALS = ("iceberg.exceptions.ValidationException", "iceberg.exceptions.CommitFailedException")
"""Of a commit that another one overtook: what it changed was written, or its four tries were all lost."""


class IcebergTables(Tables):
    """Iceberg tables through their own Spark runtime, in a Hadoop catalog."""

    def __init__(self, spark: SparkSession, place: Path) -> None:
        super().__init__(spark, place)
        self._staged: set[str] = set()

    def _name(self, table: str) -> str:
        return f"{CATALOG}.{self.place.name}.{table}"

    def _target(self, table: str) -> str:
        return self._name(table) + (".branch_audit" if table in self._staged else "")

    def create(self, table: str) -> None:
        self.spark.sql(
            f"CREATE TABLE {self._name(table)} ({SCHEMA}) USING iceberg PARTITIONED BY (epoch) "
            "TBLPROPERTIES ('write.distribution-mode' = 'none')"
        )

    def drop(self, table: str) -> None:
        self.spark.sql(f"DROP TABLE {self._name(table)} PURGE")

    def read(self, table: str) -> DataFrame:
        return self.spark.table(self._name(table))

    def begun(self, table: str) -> object:
        """The snapshot of now; None when there is none."""
        return self._snapshot(table)

    def replace(self, table: str, frame: DataFrame, since: object = ANYTHING) -> None:
        from py4j.protocol import Py4JJavaError

        writer = frame.writeTo(self._target(table))
        if since is not ANYTHING:
            writer = writer.option("isolation-level", "serializable")
        if since is not ANYTHING and since is not None:
            writer = writer.option("validate-from-snapshot-id", str(since))
        try:
            writer.overwritePartitions()
        except Py4JJavaError as error:
            if not any(name in str(error) for name in REFUSALS):
                raise
            raise Refused(table) from error

    def overwrite(self, table: str, frame: DataFrame) -> None:
        from pyspark.sql.functions import lit

        frame.writeTo(self._target(table)).overwrite(lit(True))

    def append(self, table: str, frame: DataFrame) -> None:
        frame.writeTo(self._target(table)).append()

    def add(self, table: str, amount: int) -> None:
        self.spark.sql(f"UPDATE {self._target(table)} SET value = value + {amount}")

    def delete_epoch(self, table: str, epoch: int) -> None:
        self.spark.sql(f"DELETE FROM {self._name(table)} WHERE epoch = {epoch}")

    def pinned(self, table: str) -> Callable[[], DataFrame]:
        """The snapshot of now."""
        snapshot = self._snapshot(table)
        return lambda: self.spark.sql(f"SELECT * FROM {self._name(table)} VERSION AS OF {snapshot}")

    def _snapshot(self, table: str) -> int | None:
        found = self.spark.sql(f"SELECT snapshot_id FROM {self._name(table)}.refs WHERE name = 'main'")
        return next((int(row.snapshot_id) for row in found.collect()), None)

    def held(self, table: str) -> Callable[[], DataFrame]:
        """A tag, which a cleanup leaves alone for a day."""
        self.alter(table, "CREATE TAG IF NOT EXISTS report RETAIN 1 DAYS")
        return lambda: self.tagged(table)

    def clean(self, table: str, epoch: int) -> None:  # noqa: ARG002 - snapshots are older than their epochs
        self.expire(table, datetime.now(UTC) + timedelta(seconds=1))

    def expire(self, table: str, older_than: datetime) -> None:
        """Remove what only snapshots before *older_than* need."""
        moment = older_than.strftime("%Y-%m-%d %H:%M:%S.%f")
        self.spark.sql(
            f"CALL {CATALOG}.system.expire_snapshots(table => '{self.place.name}.{table}', "
            f"older_than => TIMESTAMP '{moment}', retain_last => 1)"
        ).collect()

    def commit_empty(self, table: str, times: int) -> None:
        """Commit snapshots that add nothing."""
        jvm = self.spark._jvm
        assert jvm is not None
        found = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(
            self.spark._jsparkSession, self._name(table)
        )
        for _ in range(times):
            found.newFastAppend().commit()

    def snapshots(self, table: str) -> int:
        """How many versions the table has."""
        return self.spark.table(f"{self._name(table)}.snapshots").count()

    def alter(self, table: str, clause: str) -> None:
        """Change the tags or branches of a table."""
        self.spark.sql(f"ALTER TABLE {self._name(table)} {clause}")

    def tagged(self, table: str) -> DataFrame:
        """What the tag "report" has."""
        return self.spark.sql(f"SELECT * FROM {self._name(table)} VERSION AS OF 'report'")

    def tag_age_ms(self, table: str) -> int | None:
        """How long the tag "report" is kept."""
        (found,) = self.spark.sql(f"SELECT * FROM {self._name(table)}.refs WHERE name = 'report'").collect()
        return None if found.max_reference_age_in_ms is None else int(found.max_reference_age_in_ms)

    @contextmanager
    def steps(self, table: str) -> Iterator[None]:
        """Write on a branch, which becomes the table when all steps are done (write, audit, publish)."""
        self.alter(table, "DROP BRANCH IF EXISTS audit")
        self.alter(table, "CREATE BRANCH audit")
        self._staged.add(table)
        try:
            yield
        finally:
            self._staged.discard(table)
        self.spark.sql(
            f"CALL {CATALOG}.system.fast_forward('{self.place.name}.{table}', 'main', 'audit')"
        ).collect()
        self.alter(table, "DROP BRANCH audit")
