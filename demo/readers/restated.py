"""Readers while past days are corrected: right if all tables agree with the source before, or all with after."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from airflow_provider import Align, Epochs, NotReady, ReadableCut, UnknownName, connect
from demo.connection import settings_from_environment
from demo.readers.epochs import (
    DAILY_TABLES,
    DOMAIN,
    MOST_BEHIND,
    AdHocReader,
    is_early,
    is_retryable,
    measured,
)
from demo.readers.reading import ReaderSettings, ReadLog, Seen, judged, read_until_told
from demo.totals import TABLES, SourceTotals

OLD, NEW = "old", "new"
"""Versions of the source: as it landed first, and corrected."""

Versions = Mapping[str, SourceTotals]


def versions_of(settings: ReaderSettings, family: str) -> Versions:
    """Return the totals of both versions. :param family: ``epochs`` or ``twin``."""
    corrected = Path(os.environ[f"NYC_TOTALS_{family.upper()}_CORRECTED"])
    return {OLD: SourceTotals.load(settings.totals), NEW: SourceTotals.load(corrected)}


def read_day(epochs: Epochs, versions: Versions, *, at: datetime | None = None) -> Seen:
    """Read the tables that have a barrier each day. :param at: the greatest barrier wanted; None for the newest."""
    return _seen(epochs.cut(DAILY_TABLES, at=at), versions)


def read_all(epochs: Epochs, versions: Versions) -> Seen:
    """Read all tables at the newest day, the weekly ones at the end of the last week.

    :raises NotReady: no week has been published.
    """
    return _seen(epochs.cut(TABLES, align=Align.FLOOR, max_lag=MOST_BEHIND), versions)


def _seen(cut: ReadableCut, versions: Versions) -> Seen:
    found, behind = measured(cut)
    wrong, right = judged(found, versions, cut.barrier, behind=behind)
    return Seen(barrier=cut.barrier, tables=len(found), csn=cut.csn, wrong=wrong, versions=right)


def read_all_the_time(*, reader: str, period_s: float) -> None:
    """Read until SIGTERM."""
    settings = ReaderSettings.from_environment("epochs")
    versions = versions_of(settings, "epochs")
    with connect(settings_from_environment(), domain=DOMAIN) as epochs:
        turns = AdHocReader(
            lambda at: read_day(epochs, versions, at=at),
            lambda: read_all(epochs, versions),
            is_early=lambda error: isinstance(error, NotReady | UnknownName),
            ends=settings.days.ends,
            name=reader,
        )
        log = ReadLog(settings, family="restated", reader=reader)
        read_until_told(log, turns.read, is_early=is_early, is_retryable=is_retryable, period_s=period_s)
