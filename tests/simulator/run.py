"""One seed, from its first step to its last check."""

from __future__ import annotations

from datetime import timedelta
from random import Random

from airflow_provider.domain.defaults import DEFAULTS
from tests.simulator.cascade import HOUR, KEPT, ORIGIN, PACE, SLOWED_AT
from tests.simulator.changing.run import simulate_changing
from tests.simulator.grouped import CHAINS
from tests.simulator.history import Violation, expect
from tests.simulator.model import Model
from tests.simulator.outcome import Outcome
from tests.simulator.scheduler import Scheduler
from tests.simulator.supervisor import Supervisor
from tests.simulator.world import World

_MIX = 4
_OF_GROUPS = 8
_OF_FIVE = 5
_WITH_REGRETS = (1, 3)
"""Of five cascades, those that a user rolls back."""
_MOST_STEPS = 20_000
_TIMEOUT = 40 * DEFAULTS.lock_ttl
_DUE = timedelta(days=2)


def simulate(seed: int, *, trace: list[str] | None = None) -> Outcome:
    """Run the history of *seed*, the same again whenever it is asked for.

    Every fourth seed is one of the cascade, the others are domains that change.

    :param trace: is filled with a line for each thing that happens.
    """
    return simulate_changing(seed, trace=trace) if seed % _MIX else simulate_cascade(seed, trace=trace)


def simulate_cascade(seed: int, *, trace: list[str] | None = None) -> Outcome:
    """Run a history of the cascade: see :func:`simulate`."""
    random = Random(seed)
    scheduler = Scheduler(random, ORIGIN + _DUE + timedelta(minutes=random.randrange(45, 60)), trace)
    world = World(scheduler, random)
    group = CHAINS[seed // _OF_GROUPS % len(CHAINS)] if seed % _OF_GROUPS else ()
    violation = ""
    try:
        length = random.choice((3, 4, 6, 6, 6, 6, 6, 6))
        regrets = seed // _MIX % _OF_FIVE in _WITH_REGRETS
        _live(world, Supervisor(world, random, length, group, regrets=regrets))
    except Violation as found:
        violation = str(found)
    finally:
        scheduler.close()
    return world.outcome(seed, violation)


def _live(world: World, supervisor: Supervisor) -> None:
    """Go on with faults until little is left, then without until all has ended (I9)."""
    world.scheduler.spawn("supervisor", supervisor.live)
    enough = world.random.randrange(6)
    world.step()
    while supervisor.left() > enough and world.weather.steps < _MOST_STEPS:
        world.step()
    supervisor.calm()
    deadline = world.scheduler.clock.now() + _TIMEOUT
    while not supervisor.finished:
        late = world.scheduler.clock.now() > deadline
        waiting = [f"{task.name} {task.interval} {task.run}" for task in supervisor.tasks if not task.done]
        expect(not late, "I9", f"40 TTLs after the last fault: {waiting}")
        world.step()
    expect(supervisor.left() == 0, "I9", f"{supervisor.left()} epochs were never published")
    _check_changing(world.model, supervisor.hours)
    world.check_history()


def _check_changing(model: Model, hours: int) -> None:
    """Expect tables that change hands or calendars to be complete, with each job that may own them in the end (R7)."""
    for table, until in ((KEPT, ORIGIN + hours * HOUR), (PACE, SLOWED_AT)):
        chain = model.chain(table.name, model.csn)
        expect(
            chain is not None and chain[1] >= until, "I9", f"{table.name} has {chain}, not all until {until}"
        )
