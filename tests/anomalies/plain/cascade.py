"""A tiny cascade, B → D → E, and what must hold of its rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tests.anomalies.plain.tables import Refused, Row, Tables
from tests.anomalies.verdicts import Observed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TABLES = ("b", "d", "d2", "e")
Rows = dict[int, list[int]]
"""Values by epoch, sorted."""


class Killed(Exception):
    """The job ends here, between two of its steps."""


class Unreadable(Exception):
    """Spark gave no rows but an error."""


class Cascade:
    """Base table B; J1 makes D (twice the values), J2 makes E (their sum); D2 and others are there to be written."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        for name in TABLES:
            tables.create(name)

    # --- jobs ------------------------------------------------------------------------------------------------

    def write(self, table: str, epoch: int, values: Sequence[int], by: str = "") -> None:
        """Replace an epoch of a table."""
        self.tables.replace(table, self.tables.frame([(epoch, value, by) for value in values]))

    def append(self, table: str, epoch: int, values: Sequence[int]) -> None:
        """Add rows to an epoch of a table."""
        self.tables.append(table, self.tables.frame([(epoch, value, "") for value in values]))

    def derive(self, source: str, target: str, epoch: int, value: str) -> None:
        """Replace an epoch of *target* by rows made from those of *source*: *value* is a Spark expression."""
        found = self.tables.read(source).where(f"epoch = {epoch}")
        if "(" in value:
            frame = (
                found.groupBy("epoch").agg({"value": "sum"}).toDF("epoch", "value").selectExpr("*", "'' by")
            )
        else:
            frame = found.selectExpr("epoch", f"{value} AS value", "by")
        self.tables.replace(target, frame)

    def j1(self, epoch: int) -> None:
        """Make D of an epoch from B."""
        self.derive("b", "d", epoch, "value * 2")

    def j2(self, epoch: int) -> None:
        """Make E of an epoch from D."""
        self.derive("d", "e", epoch, "sum(value)")

    def run(self, epoch: int, values: Sequence[int]) -> None:
        """Compute an epoch from its beginning to its end, each job when the one before has ended."""
        self.write("b", epoch, values)
        self.j1(epoch)
        self.j2(epoch)

    def job(self, by: str, *tables: str) -> Job:
        """A try that begins now and will write *tables*."""
        return Job(self, by, tables)

    # --- readers ---------------------------------------------------------------------------------------------

    def rows(self, table: str) -> list[Row]:
        """All rows of a table as it is now."""
        return collected(self.tables.read(table))

    def see(self, *tables: str) -> tuple[Rows, ...]:
        """What a reader gets who reads *tables* one after the other."""
        return tuple(by_epoch(self.rows(table)) for table in tables)

    def writers(self, table: str) -> set[str]:
        """Who wrote the rows of a table."""
        return {by for _, _, by in self.rows(table)}


class Job:
    """A try of a job, which may be overtaken: each write says what it noted of the table when it began."""

    def __init__(self, cascade: Cascade, by: str, tables: Sequence[str]) -> None:
        self._tables = cascade.tables
        self._by = by
        self._since = {table: self._tables.begun(table) for table in tables}

    def write(self, table: str, epoch: int, values: Sequence[int]) -> bool:
        """Replace an epoch; whether the format let it pass."""
        frame = self._tables.frame([(epoch, value, self._by) for value in values])
        try:
            self._tables.replace(table, frame, self._since[table])
        except Refused:
            return False
        return True


def collected(frame: DataFrame) -> list[Row]:
    """Read a frame to its end. :raises Unreadable: Spark could not."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        return sorted((row.epoch, row.value, row.by) for row in frame.collect())
    except (Py4JJavaError, PySparkException) as error:
        raise Unreadable(type(error).__name__) from error


def attempted(read: Callable[[], DataFrame]) -> Rows | None:
    """What a reader gets who is prepared for an error: None then."""
    from pyspark.errors import PySparkException

    try:
        return by_epoch(collected(read()))
    except (Unreadable, PySparkException):
        return None


def tried(write: Callable[[], None]) -> bool:
    """Whether a write comes to its end: Spark may fail it."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        write()
    except (Py4JJavaError, PySparkException):
        return False
    return True


def by_epoch(rows: Sequence[Row]) -> Rows:
    """Values by epoch."""
    found: defaultdict[int, list[int]] = defaultdict(list)
    for epoch, value, _ in rows:
        found[epoch].append(value)
    return dict(found)


def derived(d: Rows, e: Rows) -> bool:
    """Whether E is what J2 makes of this very D: the sum of each epoch."""
    return e == {epoch: [sum(values)] for epoch, values in d.items()}


def observed(holds: bool, **found: object) -> Observed:
    """Say what was read, such as "R reads D: {1: [2]}; E: {1: [2]}."."""
    said = "; ".join(f"{_named(name)}: {shown(value)}" for name, value in found.items())
    return Observed(seen=f"R reads {said}.", holds=holds)


def _named(name: str) -> str:
    """Such as "D written by" for d_written_by."""
    return " ".join(word.upper() if word in TABLES else word for word in name.split("_"))


def shown(value: object) -> str:
    """A value as the table's text has it."""
    if value is None:
        return "an error"
    return " and ".join(sorted(map(str, value))) if isinstance(value, set) else str(value)
