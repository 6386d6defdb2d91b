"""A cut in a Spark session: a temporary view of each table for the length of a block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from airflow_provider.domain.cut import Cut
from airflow_provider.domain.errors import InvalidInput
from airflow_provider.spark import reads, refusals, session
from airflow_provider.tables.capabilities import TableCapability, refuse_without

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_provider.coordination.reading.cuts import Cuts


@contextmanager
def cut_views(
    cuts: Cuts, cut: Cut, spark: SparkSession | None = None, *, prefix: str = "", with_epoch: bool = False
) -> Iterator[SparkSession]:
    """Create a temporary view of each table of *cut*; the end of the block drops them.

    .. code-block:: python

        lease = service.leases.cut("default", ["flights", "weather"], name="report", owner="me")
        with cut_views(service.cuts, lease.cut) as spark:
            spark.sql("SELECT … FROM flights JOIN weather …").write.parquet(place)

    Run every action inside the block: results are valid only if the block ends without an error.

    :param spark: the session; by default the running one, else a new one.
    :param prefix: text before each table's name. :param with_epoch: give the views the column ``_epoch``, too.
    :raises LeaseExpired: the cut's time is over, or was over when the block ended (R22).
    :raises InvalidInput: a session whose settings may lose rows, a table that Spark cannot reach, or a name that
        another table or view of the session has.
    """
    ready = session.session(spark)
    cuts.check(cut)
    made: list[str] = []
    try:
        for table, state in cut.states.items():
            name = f"{prefix}{table}"
            schema = cuts.schema(cut.domain, state)
            table_format = cuts.format_of(state)
            refuse_without(TableCapability.SHARED_FILES, table_format, table)
            if not schema:
                raise refusals.unknown_columns(table)
            if ready.catalog.tableExists(_quoted(name)):
                raise _taken(name)
            frame = reads.dataframe(ready, table_format, state, schema, with_epoch=with_epoch)
            frame.createTempView(_quoted(name))
            made.append(name)
        yield ready
        session.check(ready)
    finally:
        for name in made:
            ready.catalog.dropTempView(name)
        cuts.check(cut)


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _taken(name: str) -> InvalidInput:
    return InvalidInput(
        field="prefix",
        value=name,
        expected="names that no table or view of the session has",
        next_step="choose a prefix: cut.views(prefix='cut_').",
    )
