"""Filters of `epoch.read`: one meaning with Iceberg's runtime, without it, and in Python."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from airflow_provider import connect
from airflow_provider.coordination.service import Settings
from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.topology import Job, Table, state
from airflow_provider.spark import reads, runtime
from airflow_provider.spark.epoch_run import epoch_run
from airflow_provider.tables.filters import FilterTuple

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVENTS = Table("events")
SEEN = Table("seen")
WRITER = Job("events", outputs=[EVENTS], cadence="@daily")
READER = Job("seen", inputs=[state(EVENTS)], outputs=[SEEN], cadence="@daily")
FIRST = Interval(datetime(2013, 2, 8, tzinfo=UTC), datetime(2013, 2, 9, tzinfo=UTC))
SECOND = Interval(FIRST.end, FIRST.end + timedelta(days=1))
ROWS = """
    select id as n, cast(id as float) / 4 as f, if(id = 4, double('nan'), double(id)) as x,
        cast(id as decimal(5, 2)) as d, concat("it's ", char(92), id) as s, id % 2 = 0 as flag,
        date_add(date'2024-01-01', int(id)) as day, timestamp_micros(id * 500000) as at,
        cast(timestamp_micros(id * 500000) as timestamp_ntz) as local
    from range({}, {}) union all select null, null, null, null, null, null, null, null, null
"""
HALF = datetime.fromisoformat("1970-01-01T00:00:00.500000")
FILTERS: list[tuple[FilterTuple, list[int]]] = [
    (("n", "=", 3), [3]),
    (("n", "!=", 3), [0, 1, 2, 4, 5]),
    (("f", ">=", 1.0), [4, 5]),
    (("x", ">", 2), [3, 5]),
    (("x", "!=", 2), [0, 1, 3, 4, 5]),
    (("d", "in", [Decimal("1.00"), 5]), [1, 5]),
    (("s", "=", "it's \\4"), [4]),
    (("flag", "=", True), [0, 2, 4]),
    (("day", "<", date(2024, 1, 3)), [0, 1]),
    (("at", "<=", HALF.replace(tzinfo=UTC)), [0, 1]),
    (("local", ">", HALF), [2, 3, 4, 5]),
]


@pytest.mark.parametrize("spark", ["connect"], indirect=True)
@pytest.mark.usefixtures("runtime_jar")
@pytest.mark.parametrize("way", ["runtime", "files", "python"])
def test_filters_mean_the_same_in_each_way_of_reading(
    spark: SparkSession, settings: Settings, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in Arrow: null meets none, and NaN none but ``!=``; without the runtime, too, files are left out."""
    for day, first in ((FIRST, 0), (SECOND, 3)):
        with epoch_run(WRITER, day, spark=spark, settings=settings) as epoch:
            epoch.write(EVENTS, spark.sql(ROWS.format(first, first + 3)).coalesce(1))
    if way != "runtime":
        monkeypatch.setattr(runtime, "opens", lambda *_: False)
    if way == "python":
        monkeypatch.setattr(reads, "opens", lambda *_: False)
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    with connect(settings.store_url) as epochs:
        cut = epochs.cut(["events"])
        for condition, ids in FILTERS:
            assert sorted(cut["events"].to_arrow(["n"], [condition]).column("n").to_pylist()) == ids, (
                condition
            )
    with epoch_run(READER, SECOND, spark=spark, settings=settings) as epoch:
        for condition, ids in FILTERS:
            found = epoch.read(EVENTS, columns=["n"], filters=[condition])
            assert found.columns == ["n"]
            assert sorted(row.n for row in found.collect()) == ids, condition
        if way == "files":
            opened = [len(epoch.read(EVENTS, filters=[("n", "<", end)]).inputFiles()) for end in (9, 2, 0)]
            assert opened == [2, 1, 0]
        with pytest.raises(InvalidInput, match="filters.*an int"):
            epoch.read(EVENTS, filters=[("n", "=", "3")])
        epoch.write(SEEN, epoch.read(EVENTS, columns=["n"], filters=[("n", "=", 3), ("flag", "=", True)]))
