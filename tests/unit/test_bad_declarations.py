"""Declarations against values that no user means: each is taken, or refused by an error that says what was expected."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

import pytest

from airflow_provider.domain.checks import accepted, in_range, is_true, no_rows, not_null, row_count, unique
from airflow_provider.domain.columns import add, drop, rename, widen
from airflow_provider.domain.completeness import none_needed
from airflow_provider.domain.interval import Cadence
from airflow_provider.domain.source_bounds import FileSource, IcebergSource, PostgresSource
from airflow_provider.domain.topology import Group, Job, Table, state, window
from tests.hostile import COLUMNS, NAMES, TEXTS, refused

A = Table("a")
DAY = datetime(2024, 1, 1, tzinfo=UTC)
BLANK = ("empty", "blank")
TIMES = ("a time without zone", "a date")


def job(name: Any = "j", **given: Any) -> Job:
    return Job(name, **{"outputs": [A], "cadence": "@daily", **given})


CALLS: dict[str, tuple[Callable[[Any], object], Iterable[str]]] = {
    "the table of a count": (lambda value: row_count(value, at_least=1), NAMES),
    "the least count": (
        lambda value: row_count(A, at_least=value, at_most=9),
        ["nothing", "zero", "a fraction"],
    ),
    "the greatest count": (lambda value: row_count(A, at_least=1, at_most=value), ["nothing", "a fraction"]),
    "the other table of a count": (lambda value: row_count(A, at_least=1, of=value), ["nothing", *NAMES]),
    "the name of a check": (lambda value: unique(A, "x", name=value), [*TEXTS, *BLANK]),
    "the name of a query": (lambda value: is_true("SELECT 1 FROM {a}", name=value), [*TEXTS, *BLANK]),
    "a column": (lambda value: not_null(A, value), COLUMNS),
    "the column of a range": (lambda value: in_range(A, value, at_least=1), COLUMNS),
    "the least value": (
        lambda value: in_range(A, "x", at_least=value, at_most="y"),
        [*TEXTS, *BLANK, *TIMES, "nothing", "zero", "below zero", "true", "a fraction"],
    ),
    "accepted values": (lambda value: accepted(A, "x", value), ["a tuple"]),
    "an accepted value": (
        lambda value: accepted(A, "x", [value]),
        [*TEXTS, *BLANK, *TIMES, "zero", "below zero", "true", "a fraction"],
    ),
    "a query": (no_rows, ["braces"]),
    "checks": (lambda value: job(checks=value), ["a list", "a mapping"]),
    "a check": (lambda value: job(checks=[value]), []),
    "a number of epochs": (lambda value: job(inactive_after=value), ["nothing"]),
    "the name of a job": (job, NAMES),
    "outputs": (lambda value: job(outputs=value), []),
    "inputs": (lambda value: job(inputs=value), ["a list", "a mapping"]),
    "a cadence": (lambda value: job(cadence=value), []),
    "a zone": (lambda value: Cadence("@daily", value), []),
    "where a cadence changes": (
        lambda value: Cadence("@hourly", since=value, before=Cadence("@daily")),
        [],
    ),
    "the cadence before": (lambda value: Cadence("@hourly", since=DAY, before=value), []),
    "a group": (lambda value: job(group=value), ["nothing"]),
    "a group of others": (lambda value: job(group=Group("g", jobs=["a", value])), []),
    "an origin": (lambda value: job(origin=value), ["nothing"]),
    "on_rerun": (lambda value: job(on_rerun=value), []),
    "determinism": (lambda value: job(determinism=value), []),
    "a format": (lambda value: Table("a", format=value), NAMES),
    "a domain": (lambda value: Table("a", value), NAMES),
    "partitions": (lambda value: Table("a", partition_by=value), ["a list", "a tuple"]),
    "an order": (lambda value: Table("a", sort_by=value), ["a list", "a tuple"]),
    "changes of columns": (lambda value: Table("a", column_changes=value), ["a list"]),
    "a change of a column": (lambda value: Table("a", column_changes=[value]), []),
    "a column that is added": (lambda value: add(value, "int"), COLUMNS),
    "its type": (lambda value: add("c", value), []),
    "a column that is renamed": (lambda value: rename(value, "other"), COLUMNS),
    "its new name": (lambda value: rename("other", value), COLUMNS),
    "a column that is dropped": (drop, COLUMNS),
    "a wider type": (lambda value: widen("c", value), []),
    "the place of a source": (
        lambda value: FileSource("r", value, late="ignore", complete=none_needed()),
        [*TEXTS, *BLANK],
    ),
    "what comes late": (lambda value: FileSource("r", "/{start}", late=value), ["nothing"]),
    "a table of others": (lambda value: IcebergSource("r", value), []),
    "its source": (lambda value: IcebergSource("r", "l.m.p", connection=value), ["a path", "empty"]),
    "how it is read": (lambda value: IcebergSource("r", "l.m.p", reads=value), []),
    "rows of others": (
        lambda value: PostgresSource("r", value, connection="s", id_column="id"),
        [kind for kind in TEXTS if kind != "a path"],
    ),
    "ids": (lambda value: PostgresSource("r", "t", connection="s", id_column=value), NAMES),
    "what a transaction is told by": (
        lambda value: PostgresSource("r", "t", connection="s", id_column="id", transaction_key=value),
        [*NAMES, "empty"],
    ),
    "partitions of a source": (
        lambda value: PostgresSource("r", "t", connection="s", id_column="id", partitions=value),
        [],
    ),
    "a state": (state, []),
    "an as_of": (lambda value: state(A, as_of=value), ["nothing", "a duration"]),
    "a length": (lambda value: window(A, value), ["a duration"]),
    "a policy": (lambda value: state(A, on_upstream_revision=value), []),
}


@pytest.mark.parametrize("what", sorted(CALLS))
def test_it_is_taken_or_refused_in_words(what: str) -> None:
    call, good = CALLS[what]
    refused(call, good)
