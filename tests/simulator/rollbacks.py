"""What a rollback of the cascade must say, before anything is changed: what goes, and what is in the way (R30)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from airflow_provider.coordination.upkeep.rollback_plan import RollbackPlan
from tests.simulator.cascade import JOBS, OWNERS
from tests.simulator.history import expect, moment_of
from tests.simulator.model import Model

_PASSED_OVER = "rolled back"
_WORDS = {
    "computed again since": "again",
    "has rolled the domain back to": _PASSED_OVER,
    "cannot compute the epochs of another job again": "heir",
    "began later at CSN": "beginning",
    "committed below the beginning of": "beginning",
}
"""What each obstacle says, and its kind."""


def obstacles(model: Model, to: int) -> set[str]:
    """The kinds of what keeps the domain from being what it was at the CSN *to*, as R30 lists them."""
    return set(_obstacles(model, to))


def _obstacles(model: Model, to: int) -> Iterator[str]:
    gone = model.rolled.since(to, model.committed)
    reverts = {name: record.reverts for name, record in model.restated.records.items()}
    again = [place for place, known in model.committed.items() if known.csn > to and place not in gone]
    if not all(model.rolled.is_reverted(place, to, reverts) for place in again):
        yield "again"  # committed at the CSN, computed again since, and not taken back
    if any(rollback.to < to < rollback.csn for rollback in model.rolled.made):
        yield _PASSED_OVER  # committed at the CSN, and taken back since
    tables = {(str(sink.name), job) for job, _ in gone for sink in JOBS[job].job.outputs}
    if any(model.owners[table] != job for table, job in tables):
        yield "heir"
    for table, job in tables:
        now, then = model.chain(table, model.csn), model.chain(table, to)
        starts = [start for name, start in gone if name == job]
        stay = len(model.current(table, model.csn)) > len(starts)
        if JOBS[OWNERS[table]].job.origin is None and stay:
            assert now is not None
            if then is None or then[0] != now[0] or any(start < now[0] for start in starts):
                yield "beginning"  # it reaches further back than it did, or has epochs below its beginning


def check_plan(
    model: Model, plan: RollbackPlan, before: tuple[Any, ...], since: datetime, now: datetime
) -> None:
    """Compare *plan* with what is in the way by the documented rules, as far as the domain has stood still.

    :param before: :func:`facts` when it was asked for. :param since: then.
    """
    check_holders(model, plan.holders, since, now)
    if facts(model) != before:
        return
    found = {(str(of_job.job), each.start) for of_job in plan.epochs for each in of_job.intervals}
    gone = model.rolled.since(plan.to, model.committed)
    kinds = {_kind(words) for words in plan.obstacles}
    known = obstacles(model, plan.to)
    if _PASSED_OVER in known:  # what would go, and what else is in the way, is not promised then
        expect(_PASSED_OVER in kinds, "R30", f"to {plan.to} at {model.csn}: {plan.obstacles}, not {known}")
        return
    expect(found == gone, "R30", f"to {plan.to} at {model.csn} is shown {sorted(found)}, not {sorted(gone)}")
    expect(kinds == known, "R30", f"to {plan.to} at {model.csn}: {plan.obstacles}, not {known}")
    if not plan.in_the_way:
        missed = model.rolled.held(since, now) | model.rolled.opened(since)
        expect(not missed, "R30", f"to {plan.to} at {model.csn}: {missed} are not in the way")
    for table in () if known else plan.tables:
        name = str(table.name)
        marks = [chain and chain[1] for chain in (model.chain(name, model.csn), model.chain(name, plan.to))]
        expect([table.before, table.after] == marks, "R30", f"{table}, not {marks}")


def facts(model: Model) -> tuple[Any, ...]:
    """What the obstacles of a rollback follow from."""
    return model.csn, dict(model.owners)


def check_holders(model: Model, holders: Iterable[str], since: datetime, now: datetime) -> None:
    """Each of *holders* was at work, or open, at some time since *since*."""
    for words in holders:
        attempt = re.fullmatch(r"an attempt of job (\S+) at (\S+) of .*", words)
        if attempt is not None:
            was = model.rolled.was_held((attempt[1], moment_of(attempt[2])), since, now)
        else:
            was = model.rolled.was_open(words.partition(" ")[2], since)
        expect(was, "R30", f"{words} is in the way, and was over at {since}")


def _kind(words: str) -> str:
    known = [kind for text, kind in _WORDS.items() if text in words]
    expect(len(known) == 1, "R30", f"a rollback is refused for what is not documented: {words}")
    return known[0]
