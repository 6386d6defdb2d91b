"""Questions of many triggers to one domain, answered from one reading of the store.

Thousands of triggers wait for a few tables. Whatever their number, a look at the store is one read: of the records that
the open questions have read so far. Only the questions with a record that has changed are asked again. New questions
share the reads of what is new.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import inf
from time import monotonic
from typing import Any

from airflow_provider.coordination.reading.wait import Readiness
from airflow_provider.domain.defaults import DEFAULTS
from airflow_provider.domain.errors import PackageTooOld, RetryableError, StoreUnavailable
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.records import Key, Kind, Stamped
from airflow_provider.domain.version import CommitRecord
from airflow_provider.stores.base import Head, MetadataReader, Reading

log = logging.getLogger(__name__)

Ask = Callable[[MetadataReader], Readiness]
Version = tuple[int, datetime] | None
SHORTEST_PAUSE = timedelta(milliseconds=50)
"""Shortest time between two looks: questions and commits that come meanwhile share the next one."""
_KEYS_OF_A_READ = 1_000


@dataclass(eq=False, kw_only=True, slots=True)
class Question:
    """An open question.

    :param ask: decides by what it reads of the store; it is called in a thread, again and again.
    :param every: time between two calls while time alone may change the answer, the last call failed, or *scans*.
    :param keys: keys that the last call has read.
    :param due: time on the monotonic clock at which it is asked again although none of its records has changed.
    :param scans: the last call has read more than single records, so that anything may change its answer.
    :param failed: the last call has failed: it is asked after the others, whom an outage must not keep from theirs.
    :param first: the first answer of all. :param ready: the first one after which nothing is waited for any longer.
    """

    ask: Ask
    every: timedelta
    ready: asyncio.Future[Readiness]
    keys: frozenset[Key[Any]] = frozenset()
    first: asyncio.Future[Readiness]
    due: float = -inf
    scans: bool = False
    failed: bool = False

    def fail(self, error: BaseException) -> None:
        for answer in (self.first, self.ready):
            if not answer.done():
                answer.set_exception(error)
                answer.exception()  # the caller that waits for the other one gets it

    def postpone(self, now: float) -> None:
        self.due = now + min(self.every, DEFAULTS.wait_poll_interval).total_seconds()


class Unread(BaseException):
    """A question reads keys that its snapshot does not have yet: ask it again after the next reading."""


class Snapshot(MetadataReader):
    """Reader whose reads are answered from one reading of the store.

    A read of keys that are new to it raises :class:`Unread`; :meth:`take` reads them with all others. A reader that
    repeats its last read gets a new reading: it asks for a later state. What is listed is listed once for each reading,
    after it: later changes are those of the next look.

    :param keys: keys of the reading.
    :ivar reading: the newest reading; None before the first. :ivar head: of the first reading: all that was decided has
        seen at least this.
    :ivar unsettled: keys whose record has changed between two readings, or is newer than the head: what was decided by
        it has to be decided again.
    :ivar asked: keys that were read since :meth:`begin`. :ivar scans: other things were read, too.
    """

    def __init__(self, store: MetadataReader, domain: DomainName, keys: Iterable[Key[Any]]) -> None:
        self.capabilities = store.capabilities
        self.reading: Reading | None = None
        self.head: Head | None = None
        self.unsettled: set[Key[Any]] = set()
        self._store = store
        self._domain = domain
        self._keys = set(keys)
        self._taken: set[Key[Any]] = set()
        self._scanned: dict[object, list[Stamped[Any]]] = {}
        self.begin()

    def begin(self) -> None:
        """Forget what was asked, before the next question."""
        self.asked: set[Key[Any]] = set()
        self.scans = False
        self._last: Sequence[Key[Any]] = ()

    @property
    def format(self) -> int:
        return self._store.format

    def take(self) -> Reading:
        """Read all keys anew."""
        before, taken = self.reading, self._taken
        self.reading, self._taken = _read(self._store, self._domain, self._keys), set(self._keys)
        self._scanned.clear()
        self.head = self.head or self.reading.head
        csn = self.reading.head.csn
        self.unsettled.update(
            key for key, stamped in self.reading.records.items() if (stamped.csn or 0) > csn
        )
        if before is not None:
            changed = (key for key in taken if version_of(before, key) != version_of(self.reading, key))
            self.unsettled.update(changed)
        return self.reading

    def read(self, domain: DomainName, keys: Sequence[Key[Any]], *, pointers: Sequence[str] = ()) -> Reading:
        if domain != self._domain or pointers:
            self.scans = True
            return self._store.read(domain, keys, pointers=pointers)
        reading = self.reading
        if reading is None or not self._taken.issuperset(keys):
            self._keys.update(keys)
            raise Unread
        if keys and keys == self._last:
            reading = self.take()
        self.asked.update(keys)
        self._last = keys
        records = reading.records
        return Reading(reading.head, reading.now, {key: records[key] for key in keys if key in records})

    def scan(
        self,
        domain: DomainName,
        kind: Kind,
        partition: str,
        *,
        start: str | None = None,
        end: str | None = None,
        limit: int | None = None,
        reverse: bool = False,
    ) -> list[Stamped[Any]]:
        self.scans = True
        wanted = (domain, kind, partition, start, end, limit, reverse)
        if wanted not in self._scanned:
            self._scanned[wanted] = self._store.scan(
                domain, kind, partition, start=start, end=end, limit=limit, reverse=reverse
            )
        return self._scanned[wanted]

    def changes(self, domain: DomainName, after: int, *, limit: int = 1000) -> list[Stamped[CommitRecord]]:
        self.scans = True
        return self._store.changes(domain, after, limit=limit)

    def domains(self) -> list[DomainName]:
        self.scans = True
        return self._store.domains()

    def watch(self, domain: DomainName, after: int, timeout: timedelta) -> int:
        return self._store.watch(domain, after, timeout)


class Questions:
    """The open questions of one event loop to one domain.

    :param store: read in the thread of *executor* only.
    """

    def __init__(self, store: MetadataReader, domain: DomainName, executor: Executor) -> None:
        self._store = store
        self._domain = domain
        self._executor = executor
        self._open: set[Question] = set()
        self._by_key: dict[Key[Any], set[Question]] = {}
        self._versions: dict[Key[Any], Version] = {}
        self._head: Head | None = None
        self._wanted = asyncio.Event()

    async def ready(
        self, ask: Ask, *, every: timedelta, tell: Callable[[Readiness], Awaitable[None]] | None = None
    ) -> tuple[Readiness, bool]:
        """Return the first answer of *ask* that is ready, or says why not, and whether it was the first of all.

        :class:`Question` has the parameters. What *ask* raises is raised, but for errors that pass by themselves:
        then it is asked again.
        """
        make = asyncio.get_running_loop().create_future
        question = Question(ask=ask, every=every, ready=make(), first=make())
        self._open.add(question)
        self.look()
        try:
            first = await question.first
            if tell is not None:
                await tell(first)
            answer = await question.ready
        finally:
            self._open.discard(question)
            self._read_by(question, frozenset())
        return answer, first.is_over

    @property
    def asked(self) -> int:
        """Number of open questions that were asked at least once."""
        return sum(question.first.done() for question in self._open)

    def look(self) -> None:
        """Have the store looked at soon."""
        self._wanted.set()

    async def run(self) -> None:
        """Answer questions, until cancelled."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._pause()):
                    await self._wanted.wait()
            self._wanted.clear()
            if self._open:
                await self._look()
            await asyncio.sleep(SHORTEST_PAUSE.total_seconds())

    def _pause(self) -> float | None:
        """Return the time in seconds until a look that nothing else asks for; None while no question is open."""
        if not self._open:
            return None
        due = min(question.due for question in self._open) - monotonic()
        return max(min(due, DEFAULTS.wait_poll_interval.total_seconds()), 0.0)

    async def _look(self) -> None:
        loop, asked = asyncio.get_running_loop(), list(self._open)
        snapshot = Snapshot(self._store, self._domain, self._by_key)
        answers: list[Answer] = []
        try:
            if self._by_key:
                reading = await loop.run_in_executor(self._executor, snapshot.take)
                asked = self._changed(reading)
            asked.sort(key=lambda question: question.failed)
            await loop.run_in_executor(self._executor, _answer, snapshot, asked, answers)
        except Exception as error:  # noqa: BLE001 - each question raises it, or is asked again
            self._head = None  # what this look has seen of the others is not remembered: all are asked again
            self._tell(answers)
            told = {answer.question for answer in answers}
            self._failed([question for question in asked if question not in told], error)
        else:
            self._tell(answers)
            self._learn(snapshot)

    def _changed(self, reading: Reading) -> list[Question]:
        """Return the questions whose answers may differ from those at the last look."""
        if self._head is None or self._head.incarnation != reading.head.incarnation:
            return list(self._open)
        now, moved = monotonic(), self._head.csn != reading.head.csn
        found = {question for question in self._open if question.due <= now or (moved and question.scans)}
        for key, questions in self._by_key.items():
            if key not in self._versions or self._versions[key] != version_of(reading, key):
                found |= questions
        return list(found & self._open)

    def _tell(self, answers: Iterable[Answer]) -> None:
        now = monotonic()
        for answer in answers:
            question = answer.question
            if question not in self._open:
                continue  # its trigger was cancelled
            self._read_by(question, answer.keys)
            question.scans, question.due, question.failed = answer.scans, inf, False
            if isinstance(answer.found, Readiness):
                if not question.first.done():
                    question.first.set_result(answer.found)
                if answer.found.is_over and not question.ready.done():
                    question.ready.set_result(answer.found)
                if answer.found.ends_by_clock or answer.scans:
                    question.postpone(now)
            else:
                question.failed = True
                self._failed([question], answer.found)

    def _learn(self, snapshot: Snapshot) -> None:
        """Remember the state by which all open questions have been decided."""
        reading = snapshot.reading
        if reading is None:
            return
        # Not the newest one: what the first questions have listed is as old as the first reading.
        self._head = snapshot.head
        self._versions = {
            key: version_of(reading, key) for key in self._by_key if key not in snapshot.unsettled
        }
        if snapshot.unsettled or reading.head != snapshot.head:
            self.look()

    def _read_by(self, question: Question, keys: frozenset[Key[Any]]) -> None:
        for key in question.keys - keys:
            self._by_key[key].discard(question)
            if not self._by_key[key]:
                del self._by_key[key]
        for key in keys - question.keys:
            self._by_key.setdefault(key, set()).add(question)
        question.keys = keys

    def _failed(self, questions: Collection[Question], error: Exception) -> None:
        """Have *questions* asked again if *error* passes by itself; otherwise they raise it."""
        if not questions:
            return
        if not isinstance(error, RetryableError) or isinstance(error, PackageTooOld):
            for question in questions:
                question.fail(error)
            return
        now, pause = monotonic(), min(question.every for question in questions)
        log.warning(
            "The metadata store is asked again in %s, for %d triggers: %s", pause, len(questions), error
        )
        for question in questions:
            question.postpone(now)

    def end(self, error: BaseException) -> None:
        """Have all open questions raise *error*: no answers come any longer."""
        for question in self._open:
            question.fail(error)


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What a question has found. :param keys: what it has read; see :class:`Question`."""

    question: Question
    found: Readiness | Exception
    keys: frozenset[Key[Any]]
    scans: bool


def _answer(snapshot: Snapshot, questions: Sequence[Question], answers: list[Answer]) -> None:
    """Ask *questions* and append to *answers*; one that reads what is new, once more after a reading for all of those.

    :raises StoreUnavailable: the store does not answer. No question is asked after the one that has found it out, but
        for those that wait for the reading.
    """
    outage: StoreUnavailable | None = None
    while questions:
        again = []
        for question in questions:
            snapshot.begin()
            try:
                found: Readiness | Exception = question.ask(snapshot)
            except Unread:
                again.append(question)
                continue
            except Exception as error:  # noqa: BLE001 - the trigger that has asked raises it
                found = error
            keys = frozenset(snapshot.asked)
            answers.append(Answer(question=question, found=found, keys=keys, scans=snapshot.scans))
            if isinstance(found, StoreUnavailable):
                outage = found
                break
        if again:
            snapshot.take()
        questions = again
    if outage is not None:
        raise outage


def version_of(reading: Reading, key: Key[Any]) -> Version:
    """Return the version of *key* in *reading*; None for a key without a record."""
    stamped = reading.get(key)
    # A store that was restored from a backup gives versions again: the time tells them apart.
    return None if stamped is None else (stamped.version, stamped.at)


def _read(store: MetadataReader, domain: DomainName, keys: Iterable[Key[Any]]) -> Reading:
    """Read *keys*: in parts, where they are too many for one read; the head is that of the first part."""
    wanted = list(keys)
    first = store.read(domain, wanted[:_KEYS_OF_A_READ])
    records = dict(first.records)
    for start in range(_KEYS_OF_A_READ, len(wanted), _KEYS_OF_A_READ):
        records.update(store.read(domain, wanted[start : start + _KEYS_OF_A_READ]).records)
    return Reading(first.head, first.now, records)
