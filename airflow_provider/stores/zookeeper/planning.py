"""Translate a transaction into one ZooKeeper ``multi``, from hints about the nodes that it touches.

The operations stand in the order in which the contract reports failures: the store, requirements in their order,
updates, the number. A ``multi`` can require nothing but versions of existing nodes. So a record that must be absent
and never existed is created, and deleted again if it must stay absent; a record that was deleted is required at the
version of its empty node. See docs/decisions/zookeeper-layout.md.

Hints may be wrong, and then a plan must fail, never succeed wrongly. So every operation names the version on which it
relies, creates a node (which fails if there is one), or sets a node (which fails if there is none).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.records import Key, Kind
from airflow_provider.stores.base import Absent, Exists, commit_key
from airflow_provider.stores.requests import CheckedTransaction
from airflow_provider.stores.zookeeper.known import (
    Floor,
    Incarnation,
    Partition,
    Seen,
    SeenHead,
    partition_of,
)
from airflow_provider.stores.zookeeper.nodes import new_transaction, packed, packed_head
from airflow_provider.stores.zookeeper.paths import Paths
from airflow_provider.stores.zookeeper.session import Operation

MAX_TRANSACTION_BYTES = 900_000
"""Largest ``multi``: at 1 MiB ZooKeeper drops the connection without an answer, so that the outcome seems unknown."""


class Role(Enum):
    """Role of an operation of a ``multi``; it says what the operation's failure means."""

    RECORD = "a requirement or an update"
    """A requirement does not hold, or a hint was wrong: only reading tells which."""
    HEAD = "the head, which others move"
    """Another commit came first: plan again on the new head."""
    QUEUE = "our place in the queue for the head"
    """The session that made the place has ended."""


@dataclass(frozen=True, kw_only=True, slots=True)
class View:
    """Hints on which one transaction is planned; a copy that other threads do not change.

    :param records: the node of every key that the transaction touches; None if there is none.
    :param floors: floors of the touched partitions in which deleted records are cleared away.
    :param folders: paths of the touched folders that exist.
    :param head: the domain's head.
    :param incarnation: the store's identity.
    """

    records: Mapping[Key[Any], Seen | None]
    floors: Mapping[Partition, Floor]
    folders: Set[str]
    head: SeenHead
    incarnation: Incarnation | None

    def base(self, key: Key[Any]) -> int:
        """Return the base of the versions of *key*; for a new node that of its folder's floor."""
        seen = self.records[key]
        if seen is not None:
            return seen.base
        floor = self.floors.get(partition_of(key))
        return floor.base if floor else 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """A ``multi`` that performs a transaction.

    :param transaction: the random name that stands in everything that the ``multi`` writes.
    :param csn: the number that the transaction takes; None if it takes none.
    :param roles: the role of each operation.
    :param puts: for each key that is put, the position of its operation, whose answer has the new version.
    :param bases: for each key that is put or deleted, the base of its versions.
    :param deletes: for each key that is deleted, the position of its operation.
    :param made: paths of the folders that are created.
    :param witness: path of a node that shows after a lost reply whether the transaction was applied; None if the
        transaction writes nothing.
    :param head: the head after the transaction; None if the transaction does not set it.
    """

    domain: DomainName
    transaction: bytes
    csn: int | None
    operations: tuple[Operation, ...]
    roles: tuple[Role, ...]
    puts: dict[Key[Any], int]
    bases: dict[Key[Any], int]
    deletes: dict[Key[Any], int]
    made: tuple[str, ...]
    witness: str | None
    head: SeenHead | None


@dataclass(slots=True)
class _Draft:
    operations: list[Operation] = field(default_factory=list)
    roles: list[Role] = field(default_factory=list)
    made: dict[str, None] = field(default_factory=dict)

    def add(
        self, verb: str, path: str, data: bytes = b"", version: int = -1, role: Role = Role.RECORD
    ) -> int:
        self.operations.append(Operation(verb, path, data, version))
        self.roles.append(role)
        return len(self.operations) - 1


def touched(request: CheckedTransaction) -> list[Key[Any]]:
    """Return every key that a transaction requires or changes, except commits, each once."""
    keys = [requirement.key for requirement in request.requires]
    keys += [put.key for put, _ in request.puts]
    keys += request.deletes
    return [key for key in dict.fromkeys(keys) if key.kind is not Kind.COMMIT]


def writes_head(request: CheckedTransaction) -> bool:
    """Return whether a transaction sets the head: it takes a number, or it changes tables, which readers remember."""
    changed = (*(put.key for put, _ in request.puts), *request.deletes)
    return request.commit is not None or any(key.kind is Kind.TABLE for key in changed)


def plan(request: CheckedTransaction, view: View, paths: Paths, *, place: str | None = None) -> Plan:
    """Return the ``multi`` for *request*, planned on *view*.

    :param place: path of our node in the queue for the head; the ``multi`` removes it.
    :raises InvalidInput: the ``multi`` is too large for ZooKeeper.
    """
    head = view.head
    transaction = new_transaction()
    csn = head.csn + 1 if request.commit is not None else None
    draft = _Draft()
    bodies: dict[Key[Any], bytes | None] = {put.key: body for put, body in request.puts}
    bodies |= dict.fromkeys(request.deletes)
    bases = {key: view.base(key) for key in bodies}
    updates = {key: packed(body, csn, transaction, base=bases[key]) for key, body in bodies.items()}
    positions: dict[Key[Any], int] = {}
    if request.store is not None and view.incarnation is not None:
        draft.add("check", paths.incarnation, version=view.incarnation.version)
    # Where deleted nodes are cleared away, a path may belong to another node than the hint's, with another base: the
    # folder's version tells. A folder that does not exist yet is created below, which proves as much.
    for partition, floor in view.floors.items():
        if floor.version is not None:
            draft.add("check", paths.partition(*partition), version=floor.version)
    for requirement in dict.fromkeys(request.requires):
        key = requirement.key
        if key.kind is Kind.COMMIT:
            # A commit that exists is never removed, so the look before the plan is enough. One that must be absent
            # stays so as long as the head does not move; its own node proves nothing, since commits are folded.
            if isinstance(requirement, Absent):
                _hold_head(draft, paths, key.domain, view)
            continue
        data = updates.pop(key, None)  # one operation requires and updates
        positions[key] = _require(draft, paths, view, requirement, data, delete=key in request.deletes)
    for key, data in updates.items():
        positions[key] = _update(draft, paths, view, key, data, delete=key in request.deletes)
    # The head comes behind the records: a requirement that fails is reported as such, even if the head has moved, too.
    after = _move_head(draft, paths, view, request, head=head, csn=csn, transaction=transaction)
    if place is not None:
        draft.add("delete", place, role=Role.QUEUE)  # the commit itself wakes the next in the queue
    # Last, so that its answer is the last one: its time is that of every node of this multi.
    draft.add("set_data", paths.clock)
    _check_size(draft.operations)
    puts = {put.key: positions[put.key] for put, _ in request.puts}
    deletes = {key: positions[key] for key in request.deletes}
    changed = [paths.record(key) for key in (*puts, *deletes)]
    witness = paths.record(commit_key(request.domain, csn)) if csn else changed[0] if changed else None
    return Plan(
        domain=request.domain,
        transaction=transaction,
        csn=csn,
        operations=tuple(draft.operations),
        roles=tuple(draft.roles),
        puts=puts,
        bases=bases,
        deletes=deletes,
        made=tuple(draft.made),
        witness=witness,
        head=after,
    )


def _require(
    draft: _Draft,
    paths: Paths,
    view: View,
    requirement: Exists | Absent,
    data: bytes | None,
    *,
    delete: bool,
) -> int:
    """Add a requirement, together with the update of the same key; return the position of its operation.

    :param data: the node's new data; None if the key is not updated.
    :param delete: the update deletes the record.
    """
    path = paths.record(requirement.key)
    seen = view.records[requirement.key]
    if isinstance(requirement, Exists):
        # The writer has compared the record's version with the hint; here the version of the hint's node counts.
        # Without a node the check fails, as it should.
        version = seen.version if seen is not None else requirement.version - 1
    else:
        if seen is None:
            # Creating the node proves that there was none.
            _make_folders(draft, paths, view, path)
            position = draft.add("create", path, b"" if delete else data or b"")
            if data is None or delete:
                draft.add("delete", path)
            return position
        # The empty node of a deleted record: at this version, no record was made at the key since.
        version = seen.version
        data = None if delete else data
    if data is None:
        return draft.add("check", path, version=version)
    return draft.add("set_data", path, data, version)


def _update(draft: _Draft, paths: Paths, view: View, key: Key[Any], data: bytes, *, delete: bool) -> int:
    """Add an update of a key that is not required; return the position of its operation."""
    path = paths.record(key)
    if view.records[key] is not None:
        return draft.add("set_data", path, data)
    _make_folders(draft, paths, view, path)
    position = draft.add("create", path, data)
    if delete:
        # Nothing to delete, as far as we know: if the record was made meanwhile, the create fails, and the next plan
        # deletes it.
        draft.add("delete", path)
    return position


def _hold_head(draft: _Draft, paths: Paths, domain: DomainName, view: View) -> None:
    """Require that the domain's head does not move, so that no commit is made meanwhile."""
    path = paths.head(domain)
    if view.head.version is not None:
        draft.add("check", path, version=view.head.version, role=Role.HEAD)
    else:
        _make_folders(draft, paths, view, path)
        draft.add("create", path, role=Role.HEAD)
        draft.add("delete", path, role=Role.HEAD)


def _move_head(
    draft: _Draft,
    paths: Paths,
    view: View,
    request: CheckedTransaction,
    *,
    head: SeenHead,
    csn: int | None,
    transaction: bytes,
) -> SeenHead | None:
    """Add the commit, if the transaction takes a number, and the new head; return that head.

    The head is set at the version on which it was planned. So two transactions never take one number, none is left
    out, and the head has another version after every write of a table, which readers rely on.
    """
    if not writes_head(request):
        return None
    path = paths.head(request.domain)
    version = 0 if head.version is None else head.version + 1
    data = packed_head(csn or head.csn, transaction)
    if head.version is None:
        _make_folders(draft, paths, view, path)
        draft.add("create", path, data, role=Role.HEAD)
    else:
        draft.add("set_data", path, data, head.version, role=Role.HEAD)
    if csn is not None and request.commit is not None:
        commit = paths.record(commit_key(request.domain, csn))
        _make_folders(draft, paths, view, commit)
        draft.add("create", commit, packed(request.commit[1], csn, transaction), role=Role.HEAD)
    return SeenHead(version, csn or head.csn, transaction)


def folders_of(paths: Paths, domain: DomainName, keys: Iterable[Key[Any]], *, number: bool) -> list[str]:
    """Return the folders of the nodes of *keys* and (*number*) of a commit, the uppermost first."""
    wanted = [paths.record(key) for key in keys]
    if number:
        wanted.append(paths.record(commit_key(domain, 1)))
    return list(dict.fromkeys(folder for path in wanted for folder in paths.parents(path)))


def _make_folders(draft: _Draft, paths: Paths, view: View, path: str) -> None:
    for folder in paths.parents(path):
        if folder not in view.folders and folder not in draft.made:
            draft.made[folder] = None
            draft.add("create", folder)


def _check_size(operations: Iterable[Operation]) -> None:
    size = sum(operation.size_bytes for operation in operations)
    if size > MAX_TRANSACTION_BYTES:
        raise InvalidInput(
            f"the transaction takes about {size} bytes compressed; at most {MAX_TRANSACTION_BYTES} fit into "
            "one of ZooKeeper.",
            next_step="publish fewer tables or epochs together, or record references instead of contents.",
            field="transaction",
            value=size,
            expected=f"at most {MAX_TRANSACTION_BYTES} bytes",
        )
