"""The twin's readers while a past day is corrected: right if all tables agree with one version of the source."""

from __future__ import annotations

from demo.readers.reading import ReaderSettings, ReadLog, Seen, read_until_told
from demo.readers.restated import Versions, versions_of
from demo.readers.twin import is_retryable, judge, read_tables


def read(settings: ReaderSettings, versions: Versions) -> Seen:
    """Read all tables; judge them by the version of the source with which they agree best, in the twin's favour."""
    rows = read_tables(settings.warehouse)
    found = [judge(rows, totals, settings.days) for totals in versions.values()]
    return min(found, key=lambda seen: len(seen.wrong))


def read_all_the_time(*, reader: str, period_s: float) -> None:
    """Read until SIGTERM."""
    settings = ReaderSettings.from_environment("twin")
    versions = versions_of(settings, "twin")
    read_until_told(
        ReadLog(settings, family="twin_restated", reader=reader),
        lambda: read(settings, versions),
        is_early=is_retryable,
        is_retryable=is_retryable,
        period_s=period_s,
    )
