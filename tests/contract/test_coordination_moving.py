"""A domain is moved with what its jobs have left behind, and is moved on from where it has arrived."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from airflow_provider.coordination.commits import versions
from airflow_provider.coordination.commits.adopt import adopt
from airflow_provider.coordination.commits.sealed import DomainMoved, DomainMoving
from airflow_provider.coordination.service import EpochService, Settings
from airflow_provider.coordination.upkeep import move, vacuum
from airflow_provider.coordination.upkeep.audit import missing_files
from airflow_provider.coordination.upkeep.move import MovedDomain, _Mover, move_domain
from airflow_provider.coordination.upkeep.recover import recover
from airflow_provider.coordination.upkeep.relocate import Relocating
from airflow_provider.domain.defaults import Defaults
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.errors import Conflict, EpochBusy, InvalidInput
from airflow_provider.domain.identifiers import JobName
from airflow_provider.domain.records import Key, job_key, topology_key
from airflow_provider.domain.retention import Version, VersionsRecord
from airflow_provider.domain.source_bounds import FileSource
from airflow_provider.domain.topology import Job, Source, Table
from airflow_provider.domain.topology_record import Move, MoveState
from airflow_provider.stores.base import Delete, MetadataStore, Put, Transaction
from airflow_provider.stores.factory import upgrade_schema
from airflow_provider.testing.arrow_attempts import write_rows
from tests.contract.coordination_world import DOMAIN, World, day, owner
from tests.contract.test_coordination_calendars import files
from tests.contract.test_coordination_foreign import adopting, commit

LEFT, RIGHT = (Table(name, domain=DOMAIN, format="iceberg") for name in ("left", "right"))
Places = dict[str, EpochService]


@pytest.fixture
def places(quick_path: Path) -> Iterator[Places]:
    """Three stores beside one warehouse, by their names."""
    with ExitStack() as stack:
        found = {}
        for name in ("first", "second", "third"):
            url = f"sqlite:///{quick_path}/{name}.db"
            upgrade_schema(url)
            settings = Settings(store_url=url, warehouse=f"file://{quick_path}/warehouse")
            found[name] = stack.enter_context(EpochService.open(settings))
        yield found


def moved(places: Places, source: str, target: str) -> MovedDomain:
    here, there = (places[name] for name in (source, target))
    return move_domain(here.context, there.context, DOMAIN, source_place=source, target_place=target)


def job(name: str, *outputs: Table, source: Source | None = None) -> Job:
    inputs = [] if source is None else [source]
    return Job(
        name, inputs=inputs, outputs=outputs, cadence="@daily", origin=day(1).start, on_rerun="new_revision"
    )


def run(place: EpochService, declared: Job, number: int, value: int) -> None:
    """Compute one epoch: one row into each table."""
    attempt = place.begin(declared, day(number), owner())
    assert isinstance(attempt, Attempt), attempt
    for sink in attempt.sinks:
        write_rows(place, attempt, sink.name, pa.table({"number": [value]}))
    place.publish(attempt)


def numbers(place: EpochService, table: str) -> list[int]:
    found = place.cuts.read(place.cuts.cut(DOMAIN, [table]), table)
    return sorted(found["number"].to_pylist())


def test_tables_whose_files_cannot_be_led_elsewhere_stay_in_their_warehouse(world: World) -> None:
    """R33: their records would name files of the former warehouse."""
    led = Relocating.between(DOMAIN, "file:///old", "file:///new")
    table = Table("t", domain=DOMAIN, format="memory")
    with pytest.raises(InvalidInput, match=r"t: memory.* whose format can be led to another folder"):
        led.refuse_incomplete(world.formats, [(table, "memory:///old/cascade/t/1")])


def test_a_table_that_its_job_has_left_is_moved_too(places: Places) -> None:
    """R7, R17: the catalog of the target names it, and another job takes it over there."""
    first, second = places["first"], places["second"]
    run(first, job("j", LEFT, RIGHT), 1, 1)
    run(first, job("j", RIGHT), 2, 2)
    first.retire(DOMAIN, "j", table="left", reason="it is another's", by="ada")
    assert moved(places, "first", "second").tables == ("left", "right")
    assert [table.problem for table in recover(second.context, DOMAIN).tables] == ["", ""]
    run(second, job("successor", LEFT), 2, 22)
    assert (numbers(second, "left"), numbers(second, "right")) == ([1, 22], [1, 2])


def test_the_bounds_of_a_source_that_its_job_has_left_are_moved_too(places: Places) -> None:
    """I11: who declares it again goes on from what was recorded."""
    feed = FileSource("feed", "/feed", late="ignore")
    with_source, without = job("j", RIGHT, source=feed), job("j", RIGHT)
    first, second = places["first"], places["second"]
    attempt = first.begin(with_source, day(1), owner(), sources=files("then"))
    assert isinstance(attempt, Attempt)
    first.abort(attempt, "it is given up")
    first.register(without)
    first.register(job("j", LEFT))
    moved(places, "first", "second")
    again = second.begin(with_source, day(1), owner("again"), sources=files("now"))
    assert isinstance(again, Attempt)
    assert again.sources == (replace(files("now")["feed"], revision=2),)
    same = second.begin(with_source, day(1), owner("again", try_number=2), sources=files("then"))
    assert isinstance(same, Attempt)
    assert same.sources == again.sources


def test_what_was_deleted_before_the_move_is_not_missed_after_it(places: Places, quick_path: Path) -> None:
    """R24, I6: the target has stamped the commit that superseded it a moment ago."""
    soon = Defaults(read_grace=timedelta(milliseconds=1), retention_grace=timedelta(milliseconds=2))
    settings = Settings(
        store_url=f"sqlite:///{quick_path}/first.db", warehouse=f"file://{quick_path}/warehouse"
    )
    with EpochService.open(settings, defaults=soon) as first:
        run(first, job("j", LEFT), 1, 1)
        again = first.begin(job("j", LEFT), day(1), owner("again"))
        assert isinstance(again, Attempt)
        write_rows(first, again, "left", pa.table({"number": [2]}))
        first.publish(again)
        time.sleep(0.01)
        assert first.retention.vacuum(DOMAIN).deleted
    moved(places, "first", "second")
    second = places["second"]
    assert numbers(second, "left") == [2]
    assert not list(missing_files(second.store, second.formats, DOMAIN))


def test_a_domain_is_moved_on_and_comes_back_nowhere(places: Places) -> None:
    """Each store that it has left names the next one."""
    run(places["first"], job("j", LEFT), 1, 1)
    moved(places, "first", "second")
    run(places["second"], job("j", LEFT), 2, 2)
    assert moved(places, "second", "third").csn == 2
    run(places["third"], job("j", LEFT), 3, 3)
    assert numbers(places["third"], "left") == [1, 2, 3]
    for name, following in (("first", "second"), ("second", "third")):
        with pytest.raises(DomainMoved, match=f"has moved to {following}"):
            places[name].begin(job("j", LEFT), day(4), owner())
    with pytest.raises(InvalidInput, match="without the domain"):
        moved(places, "third", "first")


def test_moved_domain_stays_moved_when_its_job_is_declared_again(places: Places) -> None:
    """R7: the move, which has ended, may be repeated, and changes nothing."""
    run(places["first"], job("j", LEFT), 1, 1)
    before = moved(places, "first", "second")
    places["second"].register(job("other", RIGHT))
    places["second"].retire(DOMAIN, "other", reason="a slip", by="ada")
    again = moved(places, "first", "second")
    assert (again.csn, again.tables) == (before.csn + 1, before.tables)


def test_moved_domain_stays_moved_when_a_further_move_is_refused(places: Places) -> None:
    """R23: a lease keeps it where it is, as if no user had asked."""
    run(places["first"], job("j", LEFT), 1, 1)
    moved(places, "first", "second")
    second = places["second"]
    lease = second.leases.cut(DOMAIN, ["left"], name="reader", owner="somebody")
    with pytest.raises(EpochBusy, match="reader"):
        moved(places, "second", "third")
    assert moved(places, "first", "second").csn == 1
    second.leases.drop(lease)
    assert moved(places, "second", "third").csn == 1


@pytest.mark.parametrize("state", [MoveState.LEAVING, MoveState.GONE, MoveState.ARRIVING])
def test_a_move_that_has_begun_ends_before_another_begins(places: Places, state: MoveState) -> None:
    """R33: else two stores would have the domain, and each would go on with it."""
    first = places["first"]
    run(first, job("j", LEFT), 1, 1)
    topology = first.store.read(DOMAIN, [key := topology_key(DOMAIN)]).of(key).record
    move = Move(state=state, place="second", incarnation="x")
    first.store.transact(Transaction(domain=DOMAIN, updates=(Put(key, replace(topology, move=move)),)))
    with pytest.raises(DomainMoved, match="a move to or from second has begun"):
        moved(places, "first", "third")
    assert places["third"].store.read(DOMAIN, [key]).get(key) is None


def test_a_domain_that_is_not_whole_where_it_arrives_has_not_moved(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R33: another program deletes a record of it in the target; the move is run again, and copies it."""
    run(places["first"], job("j", LEFT), 1, 1)
    lost, pointers = Delete(job_key(DOMAIN, JobName("j"))), _Mover._move_pointers

    def deleted(mover: _Mover) -> list[str]:
        mover.target.store.transact(Transaction(domain=DOMAIN, updates=(lost,)))
        return pointers(mover)

    with monkeypatch.context() as patched:
        patched.setattr(_Mover, "_move_pointers", deleted)
        with pytest.raises(Conflict, match="records of domain 'cascade' differ") as refused:
            moved(places, "first", "second")
    assert lost.key in refused.value.keys
    with pytest.raises(DomainMoving):
        places["second"].begin(job("j", LEFT), day(2), owner())
    assert moved(places, "first", "second").csn == 1
    assert numbers(places["second"], "left") == [1]


def test_a_move_that_stood_still_while_the_domain_has_moved_on_ends_nothing(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R33: else two stores would have the domain, and each would go on with it."""
    run(places["first"], job("j", LEFT), 1, 1)
    compare = _Mover._compare

    def slow(mover: _Mover) -> None:
        compare(mover)
        monkeypatch.setattr(_Mover, "_compare", compare)
        moved(places, "first", "second")
        moved(places, "second", "third")

    monkeypatch.setattr(_Mover, "_compare", slow)
    with pytest.raises(Conflict, match="another move of domain 'cascade' has ended"):
        moved(places, "first", "second")
    for name, following in (("first", "second"), ("second", "third")):
        with pytest.raises(DomainMoved, match=f"has moved to {following}"):
            places[name].begin(job("j", LEFT), day(2), owner())


def test_a_move_that_stood_still_while_another_process_ended_it_writes_nothing(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R33: its records are older than those with which the domain has gone on."""
    run(places["first"], job("j", LEFT), 1, 1)
    announce = _Mover._announce

    def slow(mover: _Mover) -> None:
        announce(mover)
        monkeypatch.setattr(_Mover, "_announce", announce)
        moved(places, "first", "second")
        run(places["second"], job("j", LEFT), 2, 2)

    monkeypatch.setattr(_Mover, "_announce", slow)
    with pytest.raises(Conflict, match="another move of domain 'cascade' has ended"):
        moved(places, "first", "second")
    assert numbers(places["second"], "left") == [1, 2]
    assert moved(places, "first", "second").csn == 2


@pytest.mark.parametrize(
    ("state", "refused"),
    [
        (MoveState.GONE, DomainMoved),
        (MoveState.LEAVING, DomainMoving),
        (MoveState.ARRIVING, DomainMoving),
        (MoveState.ARRIVED, None),
    ],
)
def test_retiring_and_recovery_are_refused_during_a_move(
    world: World, state: MoveState, refused: type[Exception] | None
) -> None:
    """R7, R17: neither is done in a store that the domain leaves or has not wholly arrived in."""
    for name in ("live", "over"):
        world.run(world.job(name), day(1))
    world.run(world.job("t", [adopting(world)]), day(1), [1])
    world.coordinator.retire(DOMAIN, "over", reason="done", by="ada")
    commit(world, "t", "append", {1: [7]})
    key = topology_key(DOMAIN)
    topology = world.store.read(DOMAIN, [key]).records[key].record
    move = Move(state=state, place="elsewhere", incarnation="x")
    world.store.transact(Transaction(domain=DOMAIN, updates=(Put(key, replace(topology, move=move)),)))
    before = world.exactly()
    for change in (
        lambda: world.coordinator.retire(DOMAIN, "live", reason="done", by="ada"),
        lambda: world.coordinator.revive(DOMAIN, "over"),
        lambda: adopt(world.coordinator.context, adopting(world)),
    ):
        with pytest.raises(refused, match="elsewhere") if refused else nullcontext():
            change()
    assert (world.exactly() == before) is (refused is not None)


def test_a_vacuum_under_way_does_not_end_the_move_for_good(
    places: Places, quick_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R33, R24: what it deletes in the source once it was copied goes in the target, when the move is run again."""
    soon = Defaults(
        read_grace=timedelta(milliseconds=1), retention_grace=timedelta(milliseconds=2), versions_in_page=1
    )
    settings = Settings(
        store_url=f"sqlite:///{quick_path}/first.db", warehouse=f"file://{quick_path}/warehouse"
    )
    forget, pointers = versions.forget_versions, move._Mover._move_pointers
    tries: list[str] = []

    def late(store: MetadataStore, key: Key[VersionsRecord], gone: Sequence[Version]) -> None:
        def met(mover: move._Mover) -> list[str]:
            forget(store, key, gone)  # the page is in the target already
            return pointers(mover)

        if not tries:
            tries.append("first")
            with monkeypatch.context() as patch:
                patch.setattr(move._Mover, "_move_pointers", met)
                with pytest.raises(Conflict, match="run the move again"):
                    moved(places, "first", "second")
        forget(store, key, gone)

    with EpochService.open(settings, defaults=soon) as first:
        for number in (1, 2, 3):
            attempt = first.begin(job("j", LEFT), day(1), owner(f"run {number}"))
            assert isinstance(attempt, Attempt)
            write_rows(first, attempt, "left", pa.table({"number": [number]}))
            first.publish(attempt)
        time.sleep(0.01)
        monkeypatch.setattr(vacuum, "forget_versions", late)
        assert first.retention.vacuum(DOMAIN).deleted
    assert tries
    assert moved(places, "first", "second").csn == 3
    assert numbers(places["second"], "left") == [3]


def test_a_move_that_waits_for_the_end_of_a_revert_says_how_to_give_it_up(places: Places) -> None:
    """R23, R30: no task and no reader ends this lease, which lasts for a week."""
    first = places["first"]
    run(first, job("j", LEFT), 1, 1)
    first.restatements.open(DOMAIN, ["j"], day(1), name="mend it", reason="a slip", by="ada")
    attempt = first.begin_within("mend it", job("j", LEFT), day(1), owner("again"))
    assert isinstance(attempt, Attempt), attempt
    write_rows(first, attempt, "left", pa.table({"number": [2]}))
    first.complete(attempt)
    first.stage(attempt)
    first.restatements.publish(DOMAIN, "mend it")
    with pytest.raises(EpochBusy) as refused:
        moved(places, "first", "second")
    (told,) = re.findall(r"reverts of published restatements: `(.*)`", refused.value.next_step)
    *command, name, flag, whose = shlex.split(told)
    assert command == ["airflow", "epochs", "lease", "drop", "--domain", DOMAIN]
    (lease,) = first.leases.all(DOMAIN)
    assert (name, flag, whose) == (lease.id, "--owner", lease.owner)
    first.leases.drop(lease)
    assert moved(places, "first", "second").csn == 2


@pytest.mark.parametrize("step", ["_seal", "_refuse_live"])
def test_a_refused_move_takes_no_seal_off_with_which_another_process_goes_on(
    places: Places, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """R33: one has met a lease that has ended for the other; an epoch that is committed behind it would be lost.

    It comes before the other has sealed the domain, or after it.
    """
    first = places["first"]
    run(first, job("j", LEFT), 1, 1)
    lease = first.leases.cut(DOMAIN, ["left"], name="reader", owner="somebody")
    unseal, compare, beside = move._Mover._unseal, move._Mover._compare, getattr(move._Mover, step)
    refused: list[move._Mover] = []

    def met(mover: move._Mover) -> None:
        monkeypatch.setattr(move._Mover, step, beside)
        with pytest.raises(EpochBusy, match="reader"):
            moved(places, "first", "second")
        first.leases.drop(lease)
        beside(mover)

    def stands(mover: move._Mover) -> None:
        refused.append(mover)

    def compared(mover: move._Mover) -> None:
        compare(mover)
        unseal(refused[0])
        with pytest.raises(DomainMoving):
            run(first, job("j", LEFT), 2, 2)

    monkeypatch.setattr(move._Mover, step, met)
    monkeypatch.setattr(move._Mover, "_unseal", stands)
    monkeypatch.setattr(move._Mover, "_compare", compared)
    assert moved(places, "first", "second").csn == 1
    run(places["second"], job("j", LEFT), 2, 2)
    assert numbers(places["second"], "left") == [1, 2]


def test_a_domain_is_not_moved_to_two_stores_at_a_time(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R33: the other move begins after this one has looked, and before it seals the domain."""
    run(places["first"], job("j", LEFT), 1, 1)
    check = move._Mover._check

    def beside(mover: move._Mover) -> None:
        check(mover)
        with monkeypatch.context() as patch:
            patch.setattr(move._Mover, "_check", check)
            assert moved(places, "first", "second").csn == 1

    monkeypatch.setattr(move._Mover, "_check", beside)
    with pytest.raises(Conflict, match="another move"):
        moved(places, "first", "third")
    monkeypatch.undo()
    with pytest.raises(DomainMoved, match="second"):
        moved(places, "first", "third")
    assert list(places["third"].store.domains()) == []


def test_a_slow_move_says_that_another_process_has_ended_it(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R33: the target's tables have gone on since; the advice was to remove them from its catalog."""
    run(places["first"], job("j", LEFT), 1, 1)
    pointers = move._Mover._move_pointers

    def late(mover: move._Mover) -> list[str]:
        monkeypatch.setattr(move._Mover, "_move_pointers", pointers)
        assert moved(places, "first", "second").csn == 1
        run(places["second"], job("j", LEFT), 2, 2)
        return pointers(mover)

    monkeypatch.setattr(move._Mover, "_move_pointers", late)
    with pytest.raises(Conflict, match="another move"):
        moved(places, "first", "second")
    assert moved(places, "first", "second").csn == 2
    assert numbers(places["second"], "left") == [1, 2]
