"""Breaks the store's server while epochs are in publish, and proves from the store's own times that they were.

An epoch is in publish from the moment at which its program reports its output complete until its commit is in the
store. The injector follows the state log of an epoch that is being computed, strikes when it sees the report, and
brings the server back. The strike counts only if the commit is there later with a time after the server was down.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import Enum, auto
from pathlib import Path

from airflow_provider import Interval, RetryableError
from airflow_provider.domain.attempt_events import completed
from airflow_provider.domain.epoch import AttemptEvent, EpochRecord, EpochState
from airflow_provider.domain.identifiers import DomainName, JobName
from airflow_provider.domain.records import Stamped, event_partition
from airflow_provider.stores.base import MetadataReader, scan
from airflow_provider.stores.factory import open_store
from demo.stores import ServerStore

Log = list[Stamped[AttemptEvent]]


class Stage(Enum):
    """How far an attempt is on its way to publish."""

    COMPUTING = auto()
    IN_FILES = auto()
    COMPLETE = auto()
    OVER = auto()


LOG = "faults.jsonl"
LOOK_EVERY_S = 0.1
"""How often it is asked whether strikes may begin, and an epoch to follow is looked for."""
FOLLOW_EVERY_S = {Stage.COMPUTING: 0.02, Stage.IN_FILES: 0.001}
"""How often its log is read: publish takes some hundredths of a second."""
FOLLOW_FOR_S = 60.0
COMMIT_WITHIN_S = 120.0
ASK_EVERY_S = 0.2


def stage_of(log: Log, token: int) -> Stage:
    """Judge by an epoch's state log how far the attempt with *token* is; a newer attempt's entries end it."""
    own = [entry.record for entry in log if entry.record.token == token]
    ended = any(record.state in (EpochState.COMMIT, EpochState.ABORTED) for record in own)
    if ended or any(entry.record.token > token for entry in log):
        return Stage.OVER
    if completed(own, token):
        return Stage.COMPLETE
    in_files = any(record.state is EpochState.PROCESSED for record in own)
    return Stage.IN_FILES if in_files else Stage.COMPUTING


def committed_at(log: Log) -> datetime | None:
    """When an epoch became visible first, by the store's time; None when it did not."""
    return min((entry.at for entry in log if entry.record.state is EpochState.COMMIT), default=None)


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """An epoch that has reported its output complete.

    :param complete_at: when it did so, by the store's time.
    """

    job: JobName
    interval: Interval
    complete_at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class Strike:
    """A strike and what became of the epoch; all times are of this host.

    :param what: what was done to the server.
    :param complete_at: when the epoch had reported its output complete.
    :param struck_at: before the server was told to end. :param down_at: when it had ended.
    :param repaired_at: when it answered again.
    :param committed_at: of the epoch's commit; None when it has none.
    """

    job: str
    interval: str
    what: str
    complete_at: datetime
    struck_at: datetime
    down_at: datetime
    repaired_at: datetime
    committed_at: datetime | None

    @property
    def in_publish(self) -> bool:
        """Whether the server was broken between the report and the commit of the epoch."""
        return (
            self.committed_at is not None
            and self.complete_at <= self.struck_at <= self.down_at < self.committed_at
        )

    def __str__(self) -> str:
        broken_s = (self.repaired_at - self.struck_at).total_seconds()
        fate = (
            "is not committed" if self.committed_at is None else f"committed at {_clock(self.committed_at)}"
        )
        return (
            f"{_clock(self.struck_at)} UTC: {self.what}; whole again after {broken_s:.1f} s; epoch {self.job} "
            f"{self.interval} {'was in publish and' if self.in_publish else 'was not in publish; it'} {fate}"
        )


def _clock(moment: datetime) -> str:
    return moment.strftime("%H:%M:%S.%f")[:-3]


@dataclass(frozen=True, kw_only=True, slots=True)
class Aim:
    """Which epochs are struck.

    :param domain: theirs.
    :param jobs: that publish as soon as they have reported; not one whose Airflow task publishes for it.
    :param ready: asked until it says that strikes may begin.
    :param wanted: number of strikes that must count. :param most: number of strikes at most.
    :param calm_s: from a struck epoch's commit to the next strike.
    """

    domain: DomainName
    jobs: Sequence[JobName]
    ready: Callable[[], bool]
    wanted: int
    most: int
    calm_s: float = 10.0


class FaultInjector:
    """A thread that strikes until enough strikes counted.

    :param store: whose server is broken.
    :param aim: at which epochs, and how often.
    :param log: where each strike becomes a line of JSON.
    :param say: told of each strike.
    """

    def __init__(self, *, store: ServerStore, aim: Aim, log: Path, say: Callable[[str], None]) -> None:
        self._store = store
        self._aim = aim
        self._log = log
        self._say = say
        self._strikes: list[Strike] = []
        self._told = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="fault-injector", daemon=True)

    @property
    def counted(self) -> int:
        """Number of strikes that met an epoch in publish."""
        return sum(strike.in_publish for strike in list(self._strikes))

    @property
    def strikes(self) -> int:
        """Number of all strikes."""
        return len(self._strikes)

    def start(self) -> None:
        """Start it."""
        self._thread.start()

    def join(self, timeout_s: float) -> bool:
        """Wait for its end; return whether it came."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def check(self) -> None:
        """Raise what has ended it before its time, if anything has."""
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """End it, with the server running; does nothing when it was not started."""
        self._told.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            while not self._aim.ready():
                if self._told.wait(LOOK_EVERY_S):
                    return
            with open_store(self._store.settings.store_url) as reader:
                while self.counted < self._aim.wanted and self.strikes < self._aim.most:
                    target = self._next_target(reader)
                    if target is None:
                        return
                    self._note(self._hit(reader, target))
                    if self._told.wait(self._aim.calm_s):
                        return
        except Exception as error:  # noqa: BLE001 - whatever ends the thread is told by check()
            self._error = error

    def _hit(self, reader: MetadataReader, target: Target) -> Strike:
        struck_at = datetime.now(UTC)
        what = self._store.strike()
        down_at = datetime.now(UTC)
        self._store.repair()
        repaired_at = datetime.now(UTC)
        return Strike(
            job=target.job,
            interval=str(target.interval),
            what=what,
            complete_at=target.complete_at,
            struck_at=struck_at,
            down_at=down_at,
            repaired_at=repaired_at,
            committed_at=self._await_commit(reader, target),
        )

    def _note(self, strike: Strike) -> None:
        self._strikes.append(strike)
        with self._log.open("a", encoding="utf-8") as lines:
            told = {**asdict(strike), "in_publish": strike.in_publish}
            lines.write(json.dumps(told, default=str) + "\n")
        self._say(f"Fault {len(self._strikes)}: {strike}.")

    # --- which epoch -----------------------------------------------------------------------------------------

    def _next_target(self, reader: MetadataReader) -> Target | None:
        """Wait for an epoch that has just reported; None when told to stop."""
        while not self._told.wait(LOOK_EVERY_S):
            # A store that does not answer is one that recovers.
            with suppress(RetryableError):
                for job in self._least_struck_first():
                    found = self._open(reader, job)
                    target = self._follow(reader, job, found) if found else None
                    if target is not None:
                        return target
        return None

    def _least_struck_first(self) -> list[JobName]:
        struck = Counter(strike.job for strike in self._strikes)
        return sorted(self._aim.jobs, key=lambda job: struck[job])

    def _open(self, reader: MetadataReader, job: JobName) -> EpochRecord | None:
        """The job's newest epoch if it is being computed."""
        newest = scan(reader, self._aim.domain, EpochRecord, job, limit=1, reverse=True)
        if not newest or newest[0].record.attempt is None or newest[0].record.attempt.aborted is not None:
            return None
        return newest[0].record

    def _follow(self, reader: MetadataReader, job: JobName, epoch: EpochRecord) -> Target | None:
        """Read an epoch's log until its newest attempt has reported; None when it does not, or has before."""
        deadline = time.monotonic() + FOLLOW_FOR_S
        seen = Stage.COMPLETE
        while time.monotonic() < deadline and not self._told.is_set():
            log = self._barriers(reader, job, epoch.interval)
            before, seen = seen, stage_of(log, epoch.token)
            if seen is Stage.COMPLETE and before in FOLLOW_EVERY_S:
                return Target(job=job, interval=epoch.interval, complete_at=max(entry.at for entry in log))
            if seen not in FOLLOW_EVERY_S:
                return None
            self._told.wait(FOLLOW_EVERY_S[seen])
        return None

    def _await_commit(self, reader: MetadataReader, target: Target) -> datetime | None:
        deadline = time.monotonic() + COMMIT_WITHIN_S
        while time.monotonic() < deadline and not self._told.wait(ASK_EVERY_S):
            with suppress(RetryableError):
                found = committed_at(self._barriers(reader, target.job, target.interval))
                if found is not None:
                    return found
        return None

    def _barriers(self, reader: MetadataReader, job: JobName, interval: Interval) -> Log:
        return scan(reader, self._aim.domain, AttemptEvent, event_partition(job, interval.start))
