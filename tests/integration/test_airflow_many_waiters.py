"""Many triggers of one process: a look at the store is one read for all of them, and none of them misses its commit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from airflow_provider.coordination.reading.cut_readiness import cut_readiness
from airflow_provider.coordination.reading.wait import JobInputs, Readiness, begin_readiness, readiness
from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.cut_request import cut_request
from airflow_provider.domain.defaults import DEFAULTS
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.errors import Conflict, StoreUnavailable, UnknownName
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.missing import Missing
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.records import Key, table_key
from airflow_provider.domain.topology import Job, Table
from airflow_provider.domain.version import TableRecord
from airflow_provider.stores.base import MetadataReader, MetadataStore, Reading, pages
from airflow_provider.stores.factory import open_store, upgrade_schema
from airflow_provider.stores.memory import MemoryStore
from airflow_provider.stores.sql.store import SqlStore
from airflow_provider.testing.faults import Call, Fault, FaultyStore
from airflow_provider.triggers.questions import Ask, Questions, Snapshot, Unread
from airflow_provider.triggers.shared_reader import shared_reader
from tests.committed import FORMATS, commit_epoch

DOMAIN = DomainName("default")
HOUR = timedelta(hours=1)
ORIGIN = datetime(2000, 1, 1, tzinfo=UTC)
SOON = timedelta(seconds=0.1)


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MetadataStore]:
    url = f"sqlite:///{tmp_path}/store.db"
    if request.param == "sqlite":
        upgrade_schema(url)
    with MemoryStore() if request.param == "memory" else open_store(url) as opened:
        yield opened


def job(name: str) -> Job:
    return Job(
        f"make_{name}",
        outputs=[Table(name, domain=DOMAIN, format="memory")],
        cadence="@hourly",
        origin=ORIGIN,
    )


def commit(store: MetadataStore, name: str, number: int) -> None:
    if not number:
        EpochService(store, FORMATS).register(job(name))
    hour = Interval(ORIGIN + number * HOUR, ORIGIN + (number + 1) * HOUR)
    commit_epoch(store, job(name), hour, origin=ORIGIN)


def waits_for(name: str, number: int) -> Ask:
    """Ask whether the epoch *number* of a table is committed."""
    return lambda reader: readiness(reader, DOMAIN, [name], ORIGIN + (number + 1) * HOUR)


@contextmanager
def counted(store: MetadataStore) -> Iterator[tuple[FaultyStore, list[str]]]:
    calls: list[str] = []

    def note(call: Call) -> None:
        calls.append(call.method)

    yield FaultyStore(store, note), calls


def run(
    store: MetadataReader, work: Callable[[Questions], Coroutine[Any, Any, None]], within_s: float = 30
) -> None:
    """Run *work* while its questions are answered."""

    async def all_of_it() -> None:
        with ThreadPoolExecutor(1) as executor:
            questions = Questions(store, DOMAIN, executor)
            answering = asyncio.create_task(questions.run())
            try:
                async with asyncio.timeout(within_s):
                    await work(questions)
            finally:
                answering.cancel()

    asyncio.run(all_of_it())


def start(questions: Questions, asks: list[Ask], every: timedelta = SOON) -> list[asyncio.Task[Any]]:
    return [asyncio.create_task(questions.ready(ask, every=every)) for ask in asks]


async def until_asked(questions: Questions, number: int) -> None:
    while questions.asked < number:
        await asyncio.sleep(0.01)


def test_a_look_is_one_read_for_all_and_wakes_those_that_are_ready(store: MetadataStore) -> None:
    """Of 300 questions about three tables; those about a table that no job has committed yet, too."""
    for name in ("a", "b"):
        commit(store, name, 0)
    with counted(store) as (through, calls):

        async def work(questions: Questions) -> None:
            asks = {name: [waits_for(name, number) for number in range(1, 101)] for name in ("a", "b", "c")}
            waiting = {name: start(questions, asks[name], every=timedelta(hours=1)) for name in asks}
            await until_asked(questions, 300)
            assert len(calls) <= 10, "not one read each"
            for name in ("a", "c"):
                commit(store, name, 0)
                calls.clear()
                commit(store, name, 1)
                questions.look()
                await waiting[name][0]
                assert calls.count("read") <= 2
            assert [len([task for task in tasks if task.done()]) for tasks in waiting.values()] == [1, 0, 1]
            for tasks in waiting.values():
                for task in tasks:
                    task.cancel()
            await asyncio.gather(*waiting["b"], return_exceptions=True)

        run(through, work)


def test_only_questions_about_a_changed_record_are_asked_again(store: MetadataStore) -> None:
    for name in ("a", "b"):
        commit(store, name, 0)
    asked = {"a": 0, "b": 0}

    def counting(name: str, number: int) -> Ask:
        def ask(reader: MetadataReader) -> Readiness:
            asked[name] += 1
            return waits_for(name, number)(reader)

        return ask

    async def work(questions: Questions) -> None:
        waiting = start(questions, [counting("a", 2), counting("b", 1)])
        await until_asked(questions, 2)
        before = dict(asked)
        commit(store, "b", 1)
        questions.look()
        assert (await waiting[1])[0].ready
        assert asked == {"a": before["a"], "b": before["b"] + 1}
        waiting[0].cancel()

    run(store, work)


def test_a_record_that_was_newer_than_the_head_is_looked_at_again() -> None:
    """On a store whose read is no snapshot: the commit came between the head and the record."""
    inner = MemoryStore()
    commit(inner, "a", 0)
    head = inner.read(DOMAIN, []).head
    commit(inner, "a", 1)
    stale = [2]

    class BetweenReads(FaultyStore):
        def read(self, domain: DomainName, keys: Any, *, pointers: Any = ()) -> Reading:
            found = super().read(domain, keys, pointers=pointers)
            stale[0] -= 1
            return Reading(head, found.now, found.records) if stale[0] >= 0 else found

    async def work(questions: Questions) -> None:
        answer, is_first = await questions.ready(waits_for("a", 1), every=timedelta(hours=1))
        assert (answer.ready, is_first, stale[0] < 0) == (True, False, True)

    run(BetweenReads(inner, lambda _: None), work, within_s=4)


def test_what_two_questions_read_at_different_times_is_asked_again() -> None:
    """The second one needs another key, so that all is read anew; the first one was decided by the state before."""
    store = MemoryStore()
    commit(store, "a", 0)

    def interrupts(reader: MetadataReader) -> Readiness:
        if store.read(DOMAIN, []).head.csn == 1:
            commit(store, "a", 1)
        return waits_for("other", 1)(reader)

    async def work(questions: Questions) -> None:
        [first] = start(questions, [waits_for("a", 1)], every=timedelta(hours=1))
        await until_asked(questions, 1)
        [second] = start(questions, [interrupts], every=timedelta(hours=1))
        assert (await first)[0].ready
        second.cancel()

    run(store, work, within_s=4)


def test_a_lock_that_ends_by_time_wakes_who_waits_for_it(store: MetadataStore) -> None:
    service = EpochService(store, FORMATS, defaults=replace(DEFAULTS, lock_ttl=timedelta(seconds=1)))
    epoch = Interval(ORIGIN, ORIGIN + HOUR)
    other = service.begin(job("a"), epoch, Owner(dag_id="other", run_id="run"))
    assert isinstance(other, Attempt)
    inputs = JobInputs.of(job("a"), epoch)

    async def work(questions: Questions) -> None:
        answer, is_first = await questions.ready(
            lambda reader: begin_readiness(reader, DOMAIN, "make_a", inputs, ("mine", "run")), every=SOON
        )
        assert (answer.ready, is_first) == (True, False)

    run(store, work)


def test_an_outage_keeps_questions_open_and_an_error_ends_the_one_that_has_it(store: MetadataStore) -> None:
    commit(store, "a", 0)
    faults = [3]

    def lose(_: Call) -> Fault | None:
        faults[0] -= 1
        return Fault.REQUEST_LOST if faults[0] >= 0 else None

    conflicts = [2]

    def conflicting(reader: MetadataReader) -> Readiness:
        conflicts[0] -= 1
        if conflicts[0] >= 0:
            raise Conflict("a test.", next_step="ask again.")
        return waits_for("a", 0)(reader)

    def unknown(_: MetadataReader) -> Readiness:
        raise UnknownName.of_empty(DOMAIN, what="table")

    async def work(questions: Questions) -> None:
        waiting, third, second = start(questions, [waits_for("a", 0), conflicting, unknown])
        assert (await waiting)[0].ready
        assert (await third)[0].ready
        with pytest.raises(UnknownName):
            await second
        assert (faults[0] < 0, conflicts[0] < 0) == (True, True)

    run(FaultyStore(store, lose), work)


def test_new_questions_share_the_reads_of_what_is_new(store: MetadataStore) -> None:
    """Each about an epoch of its own: 200 deferred tasks, which a triggerer begins at once."""

    def begins(number: int) -> Ask:
        inputs = JobInputs.of(job("a"), Interval(ORIGIN + number * HOUR, ORIGIN + (number + 1) * HOUR))
        return lambda reader: begin_readiness(reader, DOMAIN, "make_a", inputs, ("mine", str(number)))

    commit(store, "a", 0)
    with counted(store) as (through, calls):

        async def work(questions: Questions) -> None:
            answers = await asyncio.gather(*start(questions, [begins(number) for number in range(200)]))
            assert all(answer.ready for answer, _ in answers)
            assert calls.count("read") <= 5

        run(through, work)


@pytest.mark.parametrize(
    "options",
    [{"align": "floor", "max_lag": HOUR}, {"max_staleness": timedelta(days=100_000)}, {"consistency": "altogether"}],
)  # fmt: skip
def test_a_look_is_one_read_for_cuts_with_a_readers_options(
    store: MetadataStore, options: dict[str, Any]
) -> None:
    commit(store, "a", 0)
    request = cut_request(**options)
    with counted(store) as (through, calls):

        async def work(questions: Questions) -> None:
            asks: list[Ask] = [
                partial(lambda at, reader: cut_readiness(reader, DOMAIN, ["a"], at, request), ORIGIN + number * HOUR)
                for number in range(2, 102)
            ]  # fmt: skip
            waiting = start(questions, asks, every=timedelta(hours=1))
            await until_asked(questions, 100)
            assert calls.count("read") <= 10
            commit(store, "a", 1)
            calls.clear()
            questions.look()
            assert (await waiting[0])[0].ready
            assert calls.count("read") <= 2
            for task in waiting:
                task.cancel()

        run(through, work)


@pytest.mark.parametrize("commits", [True, False])
def test_what_a_question_has_listed_is_listed_again(commits: bool) -> None:
    """After a commit between two readings of one look, and after what is written without a commit."""
    store = MemoryStore()
    commit(store, "a", 0)

    def listing(reader: MetadataReader) -> Readiness:
        reader.read(DOMAIN, [table_key(DOMAIN, job("a").outputs[0].name)])
        found = list(pages(reader, DOMAIN, TableRecord))
        missing = () if len(found) > 1 else (Missing(name="b", reason="is not there"),)
        return Readiness(barrier=ORIGIN, csn=0, missing=missing)

    def interrupts(reader: MetadataReader) -> Readiness:
        if store.read(DOMAIN, []).head.csn == 1:
            commit(store, "b", 0)
        return waits_for("other", 1)(reader)

    async def work(questions: Questions) -> None:
        every = timedelta(hours=1) if commits else SOON
        [waiting] = start(questions, [listing], every=every)
        await until_asked(questions, 1)
        if commits:
            [other] = start(questions, [interrupts], every=every)
        else:
            EpochService(store, FORMATS).register(job("b"))
        assert (await waiting)[0].ready
        if commits:
            other.cancel()

    run(store, work, within_s=4)


def test_a_question_that_cannot_be_answered_keeps_no_other_from_its_answer(store: MetadataStore) -> None:
    """What the store does not answer to one question may be that question's fault."""
    commit(store, "a", 0)

    def unavailable(_: MetadataReader) -> Readiness:
        raise StoreUnavailable("too long a list.", next_step="ask again.")

    async def work(questions: Questions) -> None:
        broken = start(questions, [unavailable] * 3)
        await asyncio.sleep(0.3)
        waiting = start(questions, [waits_for("a", number) for number in range(3)], every=SOON)
        assert (await waiting[0])[0].ready
        for number in (1, 2):
            commit(store, "a", number)
            questions.look()
            assert (await waiting[number])[0].ready
        assert not any(task.done() for task in broken)
        for task in broken:
            task.cancel()

    run(store, work, within_s=10)


def test_a_watch_that_ends_wakes_all_and_later_triggers_get_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path}/watched.db"
    upgrade_schema(url)
    broken = [True]

    def watch(self: Any, domain: DomainName, after: int, timeout: timedelta) -> int:
        if broken.pop() if broken else False:
            raise ValueError("no head")
        return watches(self, domain, after, timeout)

    watches = SqlStore.watch
    monkeypatch.setattr(SqlStore, "watch", watch)

    async def ready(number: int) -> Readiness:
        async with shared_reader(url, DOMAIN) as shared:
            return (await shared.questions.ready(waits_for("a", number), every=SOON))[0]

    async def work() -> None:
        with pytest.raises(ValueError, match="no head"):
            await ready(0)
        with open_store(url) as writer:
            commit(writer, "a", 0)
        assert (await ready(0)).ready

    async def all_of_it() -> None:
        async with asyncio.timeout(10):
            await work()

    asyncio.run(all_of_it())


def test_a_snapshot_answers_as_the_store_and_reads_anew_for_a_repeated_read(store: MetadataStore) -> None:
    commit(store, "a", 0)
    with counted(store) as (through, calls):
        snapshot = Snapshot(through, DOMAIN, [])
        key: Key[Any] = table_key(DOMAIN, job("a").outputs[0].name)
        with pytest.raises(Unread):
            snapshot.read(DOMAIN, [key])
        snapshot.take()
        first = snapshot.read(DOMAIN, [key])
        assert first.records == store.read(DOMAIN, [key]).records
        assert snapshot.read(DOMAIN, []).records == {}
        commit(store, "a", 1)
        assert snapshot.read(DOMAIN, [key]).head == first.head
        assert snapshot.read(DOMAIN, [key]).head.csn == first.head.csn + 1
        assert calls.count("read") == 2
        assert snapshot.unsettled == {key}
