"""Policies over states of full tables: what is expired, what stays since it is needed, and how a call goes on (R25)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from airflow_provider.coordination.upkeep import keep as keeping
from airflow_provider.coordination.upkeep.keep import State
from airflow_provider.domain.errors import InvalidInput, TopologyError, Unavailable, UnknownName
from airflow_provider.domain.identifiers import RestatementId
from airflow_provider.domain.keep import Keep
from airflow_provider.domain.restatement import REVERTIBLE, lease_of_restatement
from airflow_provider.domain.table_kind import TableKind
from airflow_provider.domain.topology import state
from tests.contract.coordination_world import DOMAIN, World, barrier, day
from tests.contract.restating import NAME, opened, published, restated

DAY = timedelta(days=1)
FOUR = Keep(newest=2, each={"@daily": 4})


def two_tables(world: World, days: int) -> None:
    """An incremental table, and a full one that is computed from all of it."""
    rows = world.job("rows", [world.table("rows")])
    total = world.job(
        "total", [world.table("total", kind=TableKind.FULL)], inputs=[state(world.table("rows"))]
    )
    for number in range(1, days + 1):
        world.run(rows, day(number), [number])
        world.run(total, day(number), [number])


def barriers(states: tuple[State, ...]) -> list[int]:
    return [number for each in states for number in range(1, 40) if barrier(number) == each.barrier]


def test_states_that_a_policy_does_not_name_are_expired(world: World) -> None:
    """R25: of full tables alone, oldest first; cuts of what stays read as before, and a repetition changes nothing."""
    two_tables(world, 7)
    before = world.commits()
    planned = world.retention.surplus(DOMAIN, FOUR)
    assert (barriers(planned.expired), planned.kept) == ([1, 2, 3], 4)
    assert world.commits() == before
    done = world.retention.keep(DOMAIN, FOUR)
    assert (done.expired, done.needed, done.kept, done.more) == (planned.expired, (), 4, 0)
    for number in (1, 3):
        with pytest.raises(Unavailable):
            world.cuts.cut(DOMAIN, ["total"], at=barrier(number))
        assert world.cuts.cut(DOMAIN, ["rows"], at=barrier(number))
    for number in (4, 7):
        cut = world.cuts.cut(DOMAIN, ["rows", "total"], at=barrier(number))
        assert [value for _, value in world.rows_of(cut)["total"]] == [number]
    csn = world.store.read(DOMAIN, []).head.csn
    again = world.retention.keep(DOMAIN, FOUR)
    assert (again.expired, again.kept) == ((), 4)
    assert world.store.read(DOMAIN, []).head.csn == csn


def test_a_call_expires_so_many_and_the_next_goes_on(world: World) -> None:
    two_tables(world, 7)
    first = world.retention.keep(DOMAIN, FOUR, most=2)
    assert (barriers(first.expired), first.more) == ([1, 2], 1)
    second = world.retention.keep(DOMAIN, FOUR, ["total"])
    assert (barriers(second.expired), second.more) == ([3], 0)


def test_a_state_that_is_needed_stays(world: World) -> None:
    """R24, R25: a job has yet to read it, or a restatement computes it; the answer names each with the reason."""
    two_tables(world, 6)
    late = world.job("late", [world.table("late")], inputs=[state(world.table("total"))], origin=barrier(1))
    world.run(late, day(2), [1])
    done = world.retention.keep(DOMAIN, Keep())
    assert (barriers(done.expired), barriers(done.needed)) == ([1], [3, 4])
    assert all("job 'late' has no epoch left to read at" in each.why for each in done.needed)


def test_what_a_lease_holds_stays_readable(world: World) -> None:
    two_tables(world, 4)
    lease = world.leases.cut(DOMAIN, ["total"], name="report", owner="me", at=barrier(1), ttl=DAY)
    world.retention.keep(DOMAIN, Keep())
    world.retention.vacuum(DOMAIN)
    assert [value for _, value in world.rows_of(lease.cut)["total"]] == [1]


def test_a_table_that_stands_still_keeps_its_newest_states(world: World) -> None:
    """R25: and the state at each barrier that the policy names, which is its last one for all of them."""
    two_tables(world, 6)
    other = world.job("other", [world.table("other", kind=TableKind.FULL)])
    for number in (1, 2, 3):
        world.run(other, day(number), [number])
    done = world.retention.keep(DOMAIN, FOUR, ["other"])
    assert barriers(done.expired) == [1]
    with pytest.raises(UnknownName, match="othr"):
        world.retention.keep(DOMAIN, FOUR, ["othr"])


@pytest.mark.parametrize("cadence", ["@daily", "0 0 * * 1"], ids=["late", "longer epochs"])
def test_a_cut_that_names_no_barrier_has_all_tables(world: World, cadence: str) -> None:
    """R25: each keeps its state where another one stands, which is late, or has longer epochs."""
    fast = world.job("fast", [world.table("fast", kind=TableKind.FULL)])
    slow = world.job("slow", [world.table("slow", kind=TableKind.FULL)], cadence=cadence)
    for number in range(1, 13):
        world.run(fast, day(number), [number])
    for end in (barrier(7),) if cadence != "@daily" else (barrier(1), barrier(2), barrier(3)):
        world.run(slow, slow.cadence.ending_at(end), [1])
    before = world.cuts.cut(DOMAIN, ["fast", "slow"])
    assert barriers(world.retention.keep(DOMAIN, FOUR, ["fast"]).expired)
    after = world.cuts.cut(DOMAIN, ["fast", "slow"])
    assert (after.barrier, world.rows_of(after)) == (before.barrier, world.rows_of(before))


def test_what_a_job_reads_next_stays_while_a_new_output_has_nothing(world: World) -> None:
    """R24: also of a job that declares no origin, whose first epoch with the new output has failed."""
    full = world.table("total", kind=TableKind.FULL)
    for number in range(1, 8):
        world.run(world.job("total", [full]), day(number), [number])
    for number in (1, 2):
        world.run(world.job("copy", inputs=[state(full)], origin=None), day(number))
    outputs = [world.table("copy"), world.table("more")]
    wider = world.job("copy", outputs, inputs=[state(full)], origin=None)
    world.coordinator.abort(world.begin(wider, day(3)), "SparkException: no memory")
    done = world.retention.keep(DOMAIN, Keep())
    assert (barriers(done.expired), barriers(done.needed)) == ([1], [3, 4, 5])
    world.run(wider, day(3))


def test_a_restated_state_stays(world: World) -> None:
    """R24, R28: until the restatement is published or abandoned."""
    two_tables(world, 5)
    options = {"name": "fix", "reason": "wrong", "by": "ada"}
    world.coordinator.restatements.open(DOMAIN, ["total"], day(2), **options)
    done = world.retention.keep(DOMAIN, Keep())
    assert (barriers(done.expired), barriers(done.needed)) == ([1, 3], [2])
    assert "restatement 'fix'" in done.needed[0].why


def restated_once(world: World) -> None:
    """The state of the second day is computed again; a job of its own has read it, and is computed again, too."""
    total = world.job("total", [world.table("total", kind=TableKind.FULL)])
    copy = world.job("copy", [world.table("copy", kind=TableKind.FULL)], inputs=[state(world.table("total"))])
    for number in range(1, 6):
        world.run(total, day(number), [number])
        world.run(copy, day(number), [number])
    opened(world, "total", 2)
    restated(world, total, 2, [20])
    restated(world, copy, 2, [20])
    published(world)


def reverted(world: World) -> None:
    world.coordinator.restatements.revert(DOMAIN, NAME, reason="it was right before", by="me")


def test_what_a_revert_needs_stays_for_its_seven_days(world: World) -> None:
    """R24, R30: a policy names the restatement, and a single expiry the time until which it may be reverted."""
    restated_once(world)
    until = world.store.read(DOMAIN, []).now + REVERTIBLE
    done = world.retention.keep(DOMAIN, Keep())
    assert (barriers(done.expired), barriers(done.needed)) == ([1, 1, 3, 3], [2, 2])
    assert all(f"a revert of restatement '{NAME}' does not need" in each.why for each in done.needed)
    with pytest.raises(InvalidInput, match="lease drop") as refused:
        world.retention.expire(DOMAIN, "total", barrier(2))
    assert refused.value.restatement == NAME
    assert refused.value.until is not None
    assert refused.value.until <= until
    reverted(world)
    assert world.rows("total", "copy", at=barrier(2)) == {"total": [(2, 2)], "copy": [(2, 2)]}


@pytest.mark.parametrize("end", ["seven days later", "given up"])
def test_what_no_revert_needs_any_more_is_expired(world: World, end: str) -> None:
    """R24, R30: its seven days are over, or a user has given the revert up."""
    restated_once(world)
    if end == "given up":
        lease = world.leases.find(DOMAIN, lease_of_restatement(RestatementId(NAME)))
        assert lease is not None
        world.leases.drop(lease)
    else:
        world.clock.advance(REVERTIBLE)
    done = world.retention.keep(DOMAIN, Keep())
    assert (barriers(done.expired), done.needed) == ([1, 1, 2, 2, 3, 3], ())
    with pytest.raises((Unavailable, TopologyError), match="not held any more|retention has expired"):
        reverted(world)


def test_an_error_that_says_nothing_of_a_state_ends_the_policy(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R25: it is none of those that are still needed, of which there may be thousands."""
    two_tables(world, 7)

    def refuse(*_: object) -> None:
        raise InvalidInput(field="warehouse", value="there", expected="another one")

    monkeypatch.setattr(keeping, "expire", refuse)
    with pytest.raises(InvalidInput, match="warehouse"):
        world.retention.keep(DOMAIN, FOUR)
