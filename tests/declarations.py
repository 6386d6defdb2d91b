"""Declarations of which earlier versions have recorded the identity, and a walk over all fields of one."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow_provider.domain import registration
from airflow_provider.domain.checks import accepted, in_range, is_true, no_rows, not_null, row_count, unique
from airflow_provider.domain.columns import add, drop, rename, widen
from airflow_provider.domain.completeness import ids_reached, marker, min_files, none_needed, quiet_for
from airflow_provider.domain.interval import Cadence
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.source_bounds import FileSource, IcebergSource, PostgresSource
from airflow_provider.domain.topology import (
    Job,
    Table,
    increment,
    previous,
    state,
    window,
)
from airflow_provider.stores.declarations import fingerprint

ORIGIN = datetime(2024, 1, 1, tzinfo=UTC)
A, B = Table("a"), Table("b", "default", kind="full")
FLIGHTS = Table(
    "flights",
    "air",
    partition_by=["carrier", "origin"],
    sort_by=["day"],
    on_foreign_commit="adopt",
    column_changes=[
        add("delay", "double"),
        rename("to", "destination"),
        drop("x"),
        widen("n", "decimal(10,2)"),
    ],
)
TOTALS = Table("totals", "air", kind="full", format="memory", column_changes=[drop("it's")])
CALENDAR = Cadence(
    "0 6 * * *",
    "Europe/Berlin",
    since=datetime(2024, 3, 1, 5, tzinfo=UTC),
    before=Cadence(
        "0 6 * * *", "Europe/Paris", since=datetime(2024, 2, 1, 5, tzinfo=UTC), before=Cadence("0 5 * * *")
    ),
)
SOURCES = (
    FileSource("landing", "/in/{start:%Y-%m-%d}/*.csv", complete=[marker(), min_files(3)], late="revision"),
    FileSource("quiet", "/q/{start:%Y-%m-%d}/", complete=quiet_for(timedelta(minutes=5, microseconds=7))),
    FileSource(
        "kept",
        "s3://b/{start:%Y-%m-%d}/*",
        complete=none_needed(),
        late="refuse",
        late_window=timedelta(days=9),
    ),
    FileSource("fixed", "/fixed/it's", late="ignore"),
    IcebergSource("ice", "lake.raw.events", connection="catalog", reads="state", late="revision"),
    PostgresSource(
        "ids",
        "public.orders",
        connection="db",
        id_column="id",
        transaction_key="tx",
        partitions=4,
        complete=ids_reached("at"),
        late_window=timedelta(days=2),
    ),
)
CHECKS = (
    row_count("flights", at_least=0.5, at_most=2, of="totals", name="about as many"),
    not_null("flights", "carrier", "day"),
    unique("totals", "carrier"),
    in_range("flights", "delay", at_least=-60, at_most=timedelta(hours=1).total_seconds()),
    accepted("totals", "carrier", ["AA", "Ü'", '"']),
    no_rows("SELECT * FROM {flights} WHERE a = 'b' AND \"c\" < 1"),
    is_true("SELECT count(*) > 0 FROM {totals}"),
)
WHOLE = Job(
    "everything",
    outputs=[FLIGHTS, TOTALS],
    inputs=[
        increment(Table("raw", "air"), as_of=timedelta(hours=3)),
        window(Table("wide", "air"), timedelta(days=7, seconds=1), on_upstream_revision="ignore"),
        state(Table("facts", "air", kind="full"), as_of=timedelta(0)),
        previous(TOTALS),
        *SOURCES,
    ],
    cadence=CALENDAR,
    origin=datetime(2024, 1, 1, 5, tzinfo=UTC),
    on_rerun="new_revision",
    determinism="keep_first",
    checks=CHECKS,
    inactive_after=3,
)
"""A declaration that says something in every field."""


def _small(**said: Any) -> Job:
    return Job("j", **{"outputs": [A], "cadence": "@daily", **said})


RECORDED = {
    "everything": WHOLE,
    "nothing more": _small(),
    "of tables": _small(inputs=[B, Table("c")], origin=ORIGIN),
    "of files": _small(inputs=[FileSource("r", "/a", late="ignore")], on_rerun="new_revision"),
    "of files, late": _small(inputs=[FileSource("r", "/{start}")]),
    "of an Iceberg table": _small(inputs=[IcebergSource("r", "l.m.p")]),
    "of rows": _small(inputs=[PostgresSource("r", "orders", connection="db", id_column="id")]),
    "with a zone": _small(cadence=Cadence("@hourly", "America/New_York"), on_rerun="fail"),
    "with a calendar before": _small(cadence=Cadence("@hourly", since=ORIGIN, before=Cadence("@daily"))),
    "adopting": _small(outputs=[Table("a", on_foreign_commit="adopt"), B], inactive_after=1),
    "with a column more": _small(outputs=[Table("a", column_changes=[add("x", "int")])]),
    "checked": _small(checks=[not_null("a", "x"), row_count("a", at_least=1)]),
    "replacing": _small(determinism="replace_cascade"),
    "in other letters": Job("Größe 数 '\"", outputs=[Table("ü'")], cadence="5 4 * * 1-5"),
}


def declared(job: Job, current: JobRecord | None) -> JobRecord:
    """The record for *job*, as registration finds it."""
    return registration.declared(job, current, fingerprint(job))


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Return all dataclasses in *value*, and how to reach them: by fields' names and numbers of members."""
    if is_dataclass(value):
        yield path, value
        for field in fields(value):
            yield from places(getattr(value, field.name), (*path, field.name))
    elif isinstance(value, tuple):
        for number, member in enumerate(value):
            yield from places(member, (*path, number))


def changed(value: Any, path: tuple[str | int, ...], new: Any) -> Any:
    """Return *value* with *new* at *path*, whether or not a declaration may say so."""
    if not path:
        return new
    first, *rest = path
    if isinstance(first, int):
        return (*value[:first], changed(value[first], tuple(rest), new), *value[first + 1 :])
    copied = copy.copy(value)
    object.__setattr__(copied, first, changed(getattr(value, first), tuple(rest), new))
    return copied
