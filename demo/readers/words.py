"""The reader of the word tables: one cut of all three, at the newest book or at an earlier one."""

from __future__ import annotations

from datetime import datetime
from itertools import cycle

from airflow_provider.coordination.service import EpochService
from demo.books import TABLES, BookTotals
from demo.connection import settings_from_environment
from demo.measures import COLUMNS, measure
from demo.readers.epochs import is_early, is_retryable
from demo.readers.reading import ReaderSettings, ReadLog, Seen, compare, read_until_told

DOMAIN = "words"


def read_books(service: EpochService, totals: BookTotals, *, at: datetime | None = None) -> Seen:
    """Read all tables at one cut and compare them with the text up to its barrier.

    :param at: the greatest barrier wanted; None for the newest.
    """
    cut = service.cuts.cut(DOMAIN, list(TABLES), at=at)
    found = {table: measure(table, service.cuts.read(cut, table, COLUMNS[table])) for table in TABLES}
    return Seen(
        barrier=cut.barrier, tables=len(found), csn=cut.csn, wrong=compare(found, totals, cut.barrier)
    )


def read_all_the_time(*, reader: str, period_s: float) -> None:
    """Read until SIGTERM: by turns after the newest book, and after each one in their order."""
    settings = ReaderSettings.from_environment("words")
    totals = BookTotals.load(settings.totals)
    wishes = cycle(wish for barrier in totals.barriers for wish in (None, barrier))

    def read() -> Seen:
        return read_books(service, totals, at=next(wishes))

    with EpochService.open(settings_from_environment()) as service:
        read_until_told(
            ReadLog(settings, family="words", reader=reader),
            read,
            is_early=is_early,
            is_retryable=is_retryable,
            period_s=period_s,
        )
