"""``bench.cut``: a consistent cut over many tables, and over tables of many epochs, without their file lists."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime

from airflow_provider.coordination.reading.cuts import Cuts
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.stores.factory import open_store
from benchmarks.figures import figure, percentile, progress
from benchmarks.histories import MOVES, History
from benchmarks.job import HOUR, ORIGIN
from benchmarks.sizes import Size
from benchmarks.stores import Store
from tests.committed import FORMATS

TABLES = (100, 1000)
EPOCHS = (100, 10_000)
RANGES = 10_000
"""Of expired barriers in a domain, every second one of its tables."""
RANGED_TABLES = 10
COMMITS = 2_500
"""Of a domain with many epochs; more would take minutes to write."""
SLOW_TABLES = 1000
SLOW_COMMITS = 10_000
OLD = ORIGIN + 2 * HOUR
"""An early barrier."""
ROUNDS = 5
CUTS = 100
"""In each round."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """A cut to be measured.

    :param figure: its name.
    """

    figure: str
    history: History
    names: Sequence[str]
    at: datetime | None


def measure(store: Store, size: Size = Size.FULL) -> None:
    """Print how long a cut takes by the number of tables and by that of epochs, at a new barrier and an old one."""
    widths = [size.of(number, number // 50) for number in TABLES]
    wide = History(domain=DomainName("cut"), tables=max(widths), epochs=MOVES, commits=COMMITS)
    wide.write(store)
    for name, number in zip(TABLES, widths, strict=True):
        _answer(store, _questions(store, f"tables_{name}", wide, number), size)
    _measure_epochs(store, size.of(100, 2), size.of(COMMITS, MOVES), size)
    _measure_ranges(store, size)


def measure_slow(store: Store, size: Size = Size.FULL) -> None:
    """Print it for many tables of many epochs."""
    _measure_epochs(store, size.of(SLOW_TABLES, 2), size.of(SLOW_COMMITS, MOVES), size)


def _measure_epochs(store: Store, tables: int, commits: int, size: Size) -> None:
    """Measure domains that differ in epochs by turns: what disturbs one disturbs the other."""
    questions = []
    for epochs in EPOCHS:
        domain = DomainName(f"cut-{tables}-{epochs}")
        history = History(domain=domain, tables=tables, epochs=epochs, commits=commits)
        history.write(store)
        questions += _questions(store, f"epochs_{epochs}", history, tables)
    few, few_old, many, many_old = _answer(store, questions, size)
    figure(f"bench.cut.{store.name}.epochs_ratio", many / few)
    figure(f"bench.cut.{store.name}.epochs_ratio.old", many_old / few_old)


def _measure_ranges(store: Store, size: Size) -> None:
    """Measure domains that differ in what is expired of them, by turns."""
    tables, ranges, questions = size.of(RANGED_TABLES, 2), size.of(RANGES, 20), []
    for number in (0, ranges):
        history = History(
            domain=DomainName(f"cut-ranges-{number}"),
            tables=tables,
            epochs=2 * ranges // tables + MOVES,
            commits=MOVES,
        )
        history.write(store)
        history.expire(store, number // tables)
        questions += _questions(store, f"ranges_{RANGES if number else 0}", history, tables)
    none, none_old, many, many_old = _answer(store, questions, size)
    figure(f"bench.cut.{store.name}.ranges_{RANGES}", many / none)
    figure(f"bench.cut.{store.name}.ranges_{RANGES}.old", many_old / none_old)


def _questions(store: Store, name: str, history: History, tables: int) -> list[Question]:
    """The same cut at the newest barrier and at the old one."""
    prefix, names = f"bench.cut.{store.name}.p99_ms.{name}", history.names[:tables]
    return [
        Question(figure=prefix, history=history, names=names, at=None),
        Question(figure=f"{prefix}.old", history=history, names=names, at=OLD),
    ]


def _answer(store: Store, questions: Sequence[Question], size: Size) -> list[float]:
    """Print and return for each question the median over rounds of each round's 99th percentile, in ms."""
    rounds: list[list[float]] = [[] for _ in questions]
    with ExitStack() as stack:
        readers = [Cuts(stack.enter_context(open_store(store.url)), FORMATS) for _ in questions]
        for reader, question in zip(readers, questions, strict=True):
            _check(reader, question)
        for _ in range(size.of(ROUNDS, 1)):
            for reader, question, taken in zip(readers, questions, rounds, strict=True):
                taken.append(percentile([_ms(reader, question) for _ in range(size.of(CUTS, 2))], 0.99))
    found = [statistics.median(taken) for taken in rounds]
    for question, value in zip(questions, found, strict=True):
        progress(
            f"cut of {len(question.names)} tables, {question.history.epochs} epochs each: {value:.2f} ms"
        )
        figure(question.figure, value)
    return found


def _check(reader: Cuts, question: Question) -> None:
    """The first cut, which is not measured, is the one that was asked for."""
    found = reader.cut(question.history.domain, question.names, at=question.at)
    assert len(found.states) == len(question.names)
    assert found.barrier == (question.at or ORIGIN + question.history.epochs * HOUR)


def _ms(reader: Cuts, question: Question) -> float:
    began = time.perf_counter()
    reader.cut(question.history.domain, question.names, at=question.at)
    return (time.perf_counter() - began) * 1000
