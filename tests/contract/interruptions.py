"""Something happens at one call of a store or a table format: the process dies there, or stands still."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from airflow_provider.tables.factory import TableFormats
from tests.contract.coordination_world import World

STORE_CALLS = frozenset({"read", "scan", "changes", "transact"})
TABLE_CALLS = frozenset(
    {
        "describe",
        "create",
        "task_writer",
        "describe_output",
        "compare",
        "prepare",
        "published",
        "project",
        "roll_back",
        "forget",
        "staged",
        "read",
    }
)


class Died(BaseException):
    """The process ends here: nothing that it had in mind happens, no handler catches this."""


@dataclass(slots=True)
class Interruption:
    """Counts calls and does *act* before the one with *number* (from 0).

    :ivar name: when given, only calls of that name are counted. :ivar calls: the names of all calls so far.
    """

    number: int
    act: Callable[[], object]
    name: str = ""
    calls: list[str] = field(default_factory=list)

    def around(self, name: str, call: Callable[..., Any], *given: Any, **named: Any) -> Any:
        """Make one call."""
        self.calls.append(name)
        counted = self.calls if not self.name else [called for called in self.calls if called == self.name]
        if self.name in ("", name) and len(counted) == self.number + 1:
            self.act()
        return call(*given, **named)


class Interrupted:
    """A store or a table format whose calls an interruption counts; everything else is its own."""

    def __init__(self, inner: Any, kind: str, calls: frozenset[str], interruption: Interruption) -> None:
        self._inner = inner
        self._kind = kind
        self._calls = calls
        self._interruption = interruption

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name not in self._calls:
            return found
        return lambda *given, **named: self._interruption.around(
            f"{self._kind}.{name}", found, *given, **named
        )


def worker(world: World, interruption: Interruption) -> Any:
    """Return a coordinator of a process of its own, all of whose calls are counted."""
    store = Interrupted(world.store, "store", STORE_CALLS, interruption)
    name = world.table_format
    tables: Any = Interrupted(world.formats[name], "table", TABLE_CALLS, interruption)
    return world.worker(store, TableFormats({name: lambda: tables}, following=world.formats.following))


def interrupted(
    world: World, act: Callable[[], object], call: str = "store.transact", number: int = 0
) -> Any:
    """Return a coordinator before whose *call* something happens: what it had decided on is no longer so."""
    return worker(world, Interruption(number, act, call))
