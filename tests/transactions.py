"""What each transaction requires and writes: ``python -m tests.transactions`` makes docs/reference/transactions.md.

Every operation of the coordination runs once in a small world, on a store that writes its transactions down. What an
operation has decided on must be in its requirements, or nothing tells it that others were faster.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from airflow_provider.domain.records import SOURCE_CHAINS, Key, Kind
from airflow_provider.stores.base import CatalogSwap, Delete, Exists, MetadataStore, Put, Receipt, Transaction
from airflow_provider.testing.faults import FaultyStore

ROOT = Path(__file__).parents[1]
COORDINATION = ROOT / "airflow_provider" / "coordination"
PAGE = ROOT / "docs" / "reference" / "transactions.md"
FRONT = """# Transactions: what each requires and writes

Made by `python -m tests.transactions`, which runs every operation in a small world and writes its transactions down; a
test fails when this page is not what it makes. One line is one transaction: it is applied as a whole while all that
it requires still is as it was read, or not at all (R3, and [the metadata store](store.md)).

An operation may decide only on what its line requires, or on what never changes once it is there: commits, slices,
entries of an epoch's log, bounds of sources. It may also decide on what can only change in its favour, or is looked at
again by a later operation: a begin looks at the tables of its epoch, and the publish looks again.

- `no …` requires that the record does not exist, any other name that it is as it was read.
- *the store*: it was not restored from a backup, after which versions are given out again (R33).
- *the next number*: the CSN that files which were prepared before name (R3).
- `topology` is written by every declaration, and when a domain moves: who requires it knows the jobs (R6).
- `epoch` is written by each attempt that takes an epoch over: a transaction that requires it is not overtaken (R10).
- `retention` is written before anything may be deleted: who requires it makes a claim in time (R24).
- `pointer` is what the Iceberg catalog names as the newest version, where it lies in the store's database.
- ~~struck~~: the record is removed.

In the world of this page the job `own` reads the table `source`, and `reader` reads `own`; other names say what is
special about them.

"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One line of the page.

    :param made_in: the module of the coordination that made the transaction, such as ``attempts/begin``, and the line
        of the call.
    """

    operation: str
    asked_by: str
    made_in: tuple[str, int]
    requires: tuple[str, ...]
    writes: tuple[str, ...]

    def __str__(self) -> str:
        module = self.made_in[0]
        link = f"[{module}](../../airflow_provider/coordination/{module}.py)"
        parts = (self.operation, ", ".join(self.requires), ", ".join(self.writes), link, self.asked_by)
        return f"| {' | '.join(parts)} |"


@dataclass(slots=True)
class Record:
    """What the operations of a script have done so far."""

    rows: list[Row] = field(default_factory=list)
    operation: tuple[str, str] | None = None

    @contextmanager
    def of(self, operation: str, asked_by: str) -> Iterator[None]:
        """Write down the transactions of the block; *asked_by* names the rules that want their requirements."""
        self.operation = (operation, asked_by)
        try:
            yield
        finally:
            self.operation = None

    def add(self, transaction: Transaction, place: str = "") -> None:
        """Write down one transaction that was applied; equal ones of one operation are one row."""
        if self.operation is None:
            return
        name, asked_by = self.operation
        row = Row(
            operation=name,
            asked_by=asked_by,
            made_in=_caller(),
            requires=_required(transaction, place),
            writes=_written(transaction, place),
        )
        if row not in self.rows:
            self.rows.append(row)


class RecordingStore(FaultyStore):
    """Writes down every transaction that *inner* applies. :ivar place: of the store, where there are two."""

    def __init__(self, inner: MetadataStore, record: Record, place: str = "") -> None:
        super().__init__(inner, lambda _: None)
        self._record = record
        self.place = place

    def transact(self, transaction: Transaction) -> Receipt:
        """Apply, then write down."""
        receipt = super().transact(transaction)
        self._record.add(transaction, self.place)
        return receipt


def calls() -> set[tuple[str, int]]:
    """Module and line of every call of ``transact`` in the coordination."""
    return {
        (_module(path), node.lineno)
        for path in COORDINATION.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "transact"
    }


def _caller() -> tuple[str, int]:
    frame: Any = sys._getframe()
    while not Path(frame.f_code.co_filename).is_relative_to(COORDINATION):
        frame = frame.f_back
    return _module(Path(frame.f_code.co_filename)), frame.f_lineno


def _module(path: Path) -> str:
    return path.relative_to(COORDINATION).with_suffix("").as_posix()


def _required(transaction: Transaction, place: str) -> tuple[str, ...]:
    asked = transaction.requires
    found = {
        named(requirement.key) if isinstance(requirement, Exists) else f"no {named(requirement.key)}"
        for requirement in asked
    }
    numbered = transaction.number is not None and transaction.number.expected is not None
    return (
        *_at(place),
        *(["*the store*"] if transaction.store is not None else []),
        *sorted(found | _pointers(transaction)),
        *(["*the next number*"] if numbered else []),
    )


def _written(transaction: Transaction, place: str) -> tuple[str, ...]:
    puts = {named(update.key) for update in transaction.updates if isinstance(update, Put)}
    gone = {f"~~{named(update.key)}~~" for update in transaction.updates if isinstance(update, Delete)}
    commit = ["commit"] if transaction.number else []
    return (*_at(place), *sorted(puts | _pointers(transaction)), *sorted(gone), *commit)


def _at(place: str) -> list[str]:
    return [f"*in the {place}:*"] if place else []


def _pointers(transaction: Transaction) -> set[str]:
    return {f"pointer {update.table}" for update in transaction.updates if isinstance(update, CatalogSwap)}


def named(key: Key) -> str:
    """A record by its role, without what differs from epoch to epoch."""
    match key.kind:
        case Kind.TOPOLOGY | Kind.RETENTION:
            return str(key.kind)
        case Kind.REWRITE_LOG if key.partition == SOURCE_CHAINS:
            return f"chain {key.item}"
        case Kind.JOB | Kind.TABLE | Kind.REWRITE_LOG | Kind.LEASE | Kind.RESTATEMENT:
            return f"{key.kind} {key.item}"
        case Kind.EXPIRED | Kind.COMPACTION:
            return f"{key.kind} {key.partition}"
        case Kind.VERSIONS:
            return f"{key.kind} {key.partition or key.item}"
        case Kind.EVENT:
            _, writer, state, sink = key.item.split(":", 3)
            number, _, participant_attempt = writer.partition(".")
            by = (
                f"of participant {int(number)}, its try {int(participant_attempt)}"
                if participant_attempt
                else ""
            )
            return " ".join(word for word in ("log", state, sink, by) if word)
        case Kind.RESERVATION:
            return f"reservation of the {key.item}"
        case Kind.SCHEMA | Kind.SLICE | Kind.SOURCE | Kind.EPOCH | Kind.LOCK:
            return f"{key.kind} {key.partition}"
    raise AssertionError(key)


def page(rows: list[Row]) -> str:
    """What docs/reference/transactions.md must be."""
    head = "| operation | requires | writes | made in | asked for by |\n| --- | --- | --- | --- | --- |\n"
    return FRONT + head + "".join(f"{row}\n" for row in rows)


if __name__ == "__main__":
    from tests.contract.operations import recorded

    PAGE.write_text(page(recorded()))
