"""What both kinds of readers share: how a read is judged, retried, paced and written down.

A read is *right*, *wrong* (it returned, with other totals than the source's) or *failed* (an error is left after
retries within :data:`RETRY_FOR_S`). Reads before the first that returned are *early* and are not counted: nothing had
been published yet.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from threading import Event
from types import FrameType
from typing import Protocol

from demo.source import Days
from demo.totals import Measures

RETRY_FOR_S = 30.0
RETRY_EVERY_S = 0.5

RIGHT = "right"
WRONG = "wrong"
FAILED = "failed"

Differences = dict[str, dict[str, tuple[int, int]]]
"""By table and measure: what was seen and what the source says."""


class Totals(Protocol):
    """What the source says."""

    def up_to(self, barrier: datetime) -> Mapping[str, Measures]:
        """Give every table's measures at a barrier."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """What one read returned.

    :param barrier: the moment that all tables were compared at.
    :param tables: how many these were.
    :param csn: commit sequence number of the cut; None for a reader without cuts.
    :param wrong: what differs from the source at the barrier.
    :param versions: those of the source with which all tables agree, where there are several.
    """

    barrier: datetime
    tables: int
    csn: int | None = None
    wrong: Differences = field(default_factory=dict)
    versions: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Read:
    """One line of a reader's log; times are seconds since 1970."""

    family: str
    reader: str
    at: float
    seconds: float
    tries: int
    outcome: str
    tables: int = 0
    barrier: str | None = None
    csn: int | None = None
    wrong: Differences = field(default_factory=dict)
    versions: tuple[str, ...] = ()
    error: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ReaderSettings:
    """What readers need to know, handed over in ``NYC_*`` environment variables.

    :param days: the days that the pipeline computes.
    :param totals: file with the source's totals.
    :param reads: folder of the readers' logs.
    :param warehouse: folder or URI of the naive twin's tables.
    """

    days: Days
    totals: Path
    reads: Path
    warehouse: str

    @classmethod
    def from_environment(cls, family: str) -> ReaderSettings:
        """Take them from this process's environment.

        :param family: ``epochs``, ``words`` or ``twin``.
        """
        prefix = "NYC_TWIN_" if family == "twin" else "NYC_"
        first = datetime.fromisoformat(os.environ[f"{prefix}ORIGIN"]).date()
        return cls(
            days=Days(first=first, count=int(os.environ[f"{prefix}DAYS"])),
            totals=Path(os.environ[f"NYC_TOTALS_{family.upper()}"]),
            reads=Path(os.environ["NYC_READS"]),
            warehouse=os.environ["NYC_TWIN_WAREHOUSE"],
        )


def compare(
    seen: Mapping[str, Measures],
    totals: Totals,
    barrier: datetime,
    *,
    behind: Mapping[str, timedelta] | None = None,
) -> Differences:
    """List what differs from the source's totals at a barrier.

    :param behind: the tables that were read at an earlier barrier, and how much earlier.
    """
    differences: Differences = {}
    for table, measures in seen.items():
        own = barrier - (behind or {}).get(table, timedelta(0))
        expected = totals.up_to(own)[table]
        for name, value in measures.items():
            if value != expected[name]:
                differences.setdefault(table, {})[name] = (value, expected[name])
    return differences


def judged(
    seen: Mapping[str, Measures],
    versions: Mapping[str, Totals],
    barrier: datetime,
    *,
    behind: Mapping[str, timedelta] | None = None,
) -> tuple[Differences, tuple[str, ...]]:
    """Return the versions of the source with which all tables agree; what differs from the nearest if there is none."""
    found = {name: compare(seen, totals, barrier, behind=behind) for name, totals in versions.items()}
    right = tuple(name for name, wrong in found.items() if not wrong)
    return {} if right else min(found.values(), key=len), right


class ReadLog:
    """A reader's log, one JSON line a read.

    :param settings: says where.
    :param family: ``epochs``, ``words`` or ``twin``.
    :param reader: the reader's name, part of the file's.
    """

    def __init__(self, settings: ReaderSettings, *, family: str, reader: str) -> None:
        self.family = family
        self.reader = reader
        self._path = settings.reads / f"{family}-{reader}.jsonl"

    def perform(
        self,
        read: Callable[[], Seen],
        *,
        is_retryable: Callable[[Exception], bool],
        retry_for_s: float = RETRY_FOR_S,
    ) -> Read:
        """Read once, with retries, and write the outcome down.

        :param read: performs the read.
        :param is_retryable: whether an error may be gone when the read is tried again.
        """
        started, at, tries = time.monotonic(), time.time(), 0
        seen: Seen | None = None
        while seen is None:
            tries += 1
            try:
                seen = read()
            except Exception as error:  # noqa: BLE001 - whatever a read raises is its outcome
                elapsed = time.monotonic() - started
                if not is_retryable(error) or elapsed + RETRY_EVERY_S > retry_for_s:
                    text = f"{type(error).__name__}: {error}"
                    return self._write(at=at, seconds=elapsed, tries=tries, outcome=FAILED, error=text)
                time.sleep(RETRY_EVERY_S)
        return self._write(
            at=at,
            seconds=time.monotonic() - started,
            tries=tries,
            outcome=WRONG if seen.wrong else RIGHT,
            tables=seen.tables,
            barrier=seen.barrier.isoformat(),
            csn=seen.csn,
            wrong=seen.wrong,
            versions=seen.versions,
        )

    def _write(
        self,
        *,
        at: float,
        seconds: float,
        tries: int,
        outcome: str,
        tables: int = 0,
        barrier: str | None = None,
        csn: int | None = None,
        wrong: Differences | None = None,
        versions: tuple[str, ...] = (),
        error: str | None = None,
    ) -> Read:
        read = Read(
            family=self.family,
            reader=self.reader,
            at=at,
            seconds=round(seconds, 3),
            tries=tries,
            outcome=outcome,
            tables=tables,
            barrier=barrier,
            csn=csn,
            wrong=wrong or {},
            versions=versions,
            error=error,
        )
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(asdict(read)) + "\n")
        return read


def read_until_told(
    log: ReadLog,
    read: Callable[[], Seen],
    *,
    is_early: Callable[[Exception], bool],
    is_retryable: Callable[[Exception], bool],
    period_s: float,
) -> None:
    """Read at a steady rate until SIGTERM; the read that goes on then is finished.

    :param is_early: whether an error, before the first read that returned, means that nothing is published yet.
    :param is_retryable: whether an error may be gone when the read is tried again.
    :param period_s: seconds from one read's start to the next's; a read that takes longer delays the next.
    """
    told = Event()

    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signature of a handler
        told.set()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while not told.is_set() and not _anything_published(read, is_early):
        told.wait(period_s)
    while not told.is_set():
        next_start = time.monotonic() + period_s
        log.perform(read, is_retryable=is_retryable)
        told.wait(max(0.0, next_start - time.monotonic()))


def _anything_published(read: Callable[[], Seen], is_early: Callable[[Exception], bool]) -> bool:
    """Try one early read, which is not counted: whether all tables can be read at all."""
    try:
        read()
    except Exception as error:
        if not is_early(error):
            raise
        return False
    return True
