"""The reader of the word tables: one cut of all three, at the newest book or at an earlier one."""

from __future__ import annotations

from datetime import datetime
from itertools import cycle

from airflow_provider import Epochs, connect
from demo.books import TABLES, BookTotals
from demo.connection import settings_from_environment
from demo.measures import COLUMNS, measure
from demo.readers.epochs import is_early, is_retryable
from demo.readers.reading import ReaderSettings, ReadLog, Seen, compare, read_until_told

DOMAIN = "words"


def read_books(epochs: Epochs, totals: BookTotals, *, at: datetime | None = None) -> Seen:
    """Read all tables at one cut and compare them with the text up to its barrier.

    :param at: the greatest barrier wanted; None for the newest.
    """
    cut = epochs.cut(TABLES, at=at)
    found = {table: measure(table, cut[table].to_arrow(COLUMNS[table])) for table in TABLES}
    return Seen(
        barrier=cut.barrier, tables=len(found), csn=cut.csn, wrong=compare(found, totals, cut.barrier)
    )


def read_all_the_time(*, reader: str, period_s: float) -> None:
    """Read until SIGTERM: by turns after the newest book, and after each one in their order."""
    settings = ReaderSettings.from_environment("words")
    totals = BookTotals.load(settings.totals)
    wishes = cycle(wish for barrier in totals.barriers for wish in (None, barrier))

    def read() -> Seen:
        return read_books(epochs, totals, at=next(wishes))

    with connect(settings_from_environment(), domain=DOMAIN) as epochs:
        read_until_told(
            ReadLog(settings, family="words", reader=reader),
            read,
            is_early=is_early,
            is_retryable=is_retryable,
            period_s=period_s,
        )
