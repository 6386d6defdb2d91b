"""From a transaction to one ZooKeeper ``multi``, given what is known of the nodes that it touches.

The parts stand in the order in which the contract reports failures: the store, requirements in their order,
updates, the number. A record that must be absent and was never there is created, one that was deleted is required
at the version of its empty node; a record that must be absent and stays so is created and deleted again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from enum import Enum

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
from airflow_provider.stores.zookeeper.nodes import Changed, Index, new_transaction, packed, packed_head
from airflow_provider.stores.zookeeper.paths import Paths
from airflow_provider.stores.zookeeper.session import Operation

MAX_TRANSACTION_BYTES = 900_000
"""Largest ``multi``: ZooKeeper drops the connection at 1 MiB, and says nothing."""


class Role(Enum):
    """What a part of a ``multi`` is for: what its failure means."""

    RECORD = "a requirement or an update"
    HEAD = "the head, which others move"
    TURN = "our place in the queue for the head"


@dataclass(frozen=True, kw_only=True, slots=True)
class View:
    """What one transaction is planned on; other threads do not change it meanwhile.

    :param records: the nodes of every key that it touches. :param floors: of the partitions that need one.
    """

    records: Mapping[Key, Seen | None]
    floors: Mapping[Partition, Floor]
    folders: Set[str]
    head: SeenHead
    incarnation: Incarnation | None

    def base(self, key: Key) -> int:
        """The base of the versions that *key* has, or would have when it is made."""
        seen = self.records[key]
        if seen is not None:
            return seen.base
        floor = self.floors.get(partition_of(key))
        return floor.base if floor else 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """A ``multi`` that stands for a transaction.

    :param puts: for each key that is put, the position of the operation that does it.
    :param bases: for each key that is put or deleted, the base of its versions.
    :param witness: path of a node that says afterwards whether the transaction was made.
    :param before: the head that it was planned on.
    :param head: the head as the transaction leaves it, None when it leaves it alone.
    """

    domain: DomainName
    transaction: bytes
    csn: int | None
    operations: tuple[Operation, ...]
    roles: tuple[Role, ...]
    puts: dict[Key, int]
    bases: dict[Key, int]
    deletes: dict[Key, int]
    made: tuple[str, ...]
    witness: str | None
    before: SeenHead
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


def touched(request: CheckedTransaction) -> list[Key]:
    """Every key that a transaction requires or changes, except commits, each once."""
    keys = [one.key for one in request.requires]
    keys += [put.key for put, _ in request.puts]
    keys += request.deletes
    return [key for key in dict.fromkeys(keys) if key.kind is not Kind.COMMIT]


def writes_head(request: CheckedTransaction) -> bool:
    """Whether a transaction sets the head: it takes a number, or it changes what the head lists."""
    changed = (*(put.key for put, _ in request.puts), *request.deletes)
    return request.commit is not None or any(key.kind is Kind.TABLE for key in changed)


def plan(request: CheckedTransaction, view: View, paths: Paths, *, turn: str | None = None) -> Plan:
    """Return the ``multi`` for a transaction whose keys and folders are all known.

    :param turn: path of our node in the queue for the head, which goes with the transaction.
    :raises InvalidInput: it is too large for ZooKeeper.
    """
    head = view.head
    transaction = new_transaction()
    csn = head.csn + 1 if request.commit is not None else None
    draft = _Draft()
    bodies: dict[Key, bytes | None] = {put.key: body for put, body in request.puts}
    bodies |= dict.fromkeys(request.deletes)
    bases = {key: view.base(key) for key in bodies}
    updates = {key: packed(body, csn, transaction, base=bases[key]) for key, body in bodies.items()}
    positions: dict[Key, int] = {}
    if request.store is not None and view.incarnation is not None:
        draft.add("check", paths.incarnation, version=view.incarnation.version)
    for partition, floor in view.floors.items():
        if floor.version is not None:
            draft.add("check", paths.partition(*partition), version=floor.version)
    for requirement in dict.fromkeys(request.requires):
        key = requirement.key
        if key.kind is Kind.COMMIT:
            if isinstance(requirement, Absent):
                _hold_head(draft, paths, key.domain, view)
            continue
        data = updates.pop(key, None)
        positions[key] = _require(draft, paths, view, requirement, data, delete=key in request.deletes)
    for key, data in updates.items():
        positions[key] = _update(draft, paths, view, key, data, delete=key in request.deletes)
    after = _move_head(draft, paths, view, request, head=head, csn=csn, transaction=transaction)
    if turn is not None:
        draft.add("delete", turn, role=Role.TURN)
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
        before=head,
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
    """Add a requirement, together with the update of the same key."""
    path = paths.record(requirement.key)
    seen = view.records[requirement.key]
    if isinstance(requirement, Exists):
        version = seen.version if seen is not None else requirement.version - 1
    else:
        if seen is None:
            _make_folders(draft, paths, view, path)
            position = draft.add("create", path, b"" if delete else data or b"")
            if data is None or delete:
                draft.add("delete", path)
            return position
        version = seen.version
        data = None if delete else data
    if data is None:
        return draft.add("check", path, version=version)
    return draft.add("set_data", path, data, version)


def _update(draft: _Draft, paths: Paths, view: View, key: Key, data: bytes, *, delete: bool) -> int:
    """Add an update of a key that is not required."""
    path = paths.record(key)
    if view.records[key] is not None:
        return draft.add("set_data", path, data)
    _make_folders(draft, paths, view, path)
    position = draft.add("create", path, data)
    if delete:
        draft.add("delete", path)
    return position


def _hold_head(draft: _Draft, paths: Paths, domain: DomainName, view: View) -> None:
    """Require that no commit is made meanwhile."""
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
    if not writes_head(request):
        return None
    path = paths.head(request.domain)
    version = 0 if head.version is None else head.version + 1
    changed = (*(put.key for put, _ in request.puts), *request.deletes)
    index = with_changes(head.index, (key for key in changed if key.kind is Kind.TABLE), version)
    data = packed_head(index, csn or head.csn, transaction)
    if head.version is None:
        _make_folders(draft, paths, view, path)
        draft.add("create", path, data, role=Role.HEAD)
    else:
        draft.add("set_data", path, data, head.version, role=Role.HEAD)
    if csn is not None and request.commit is not None:
        commit = paths.record(commit_key(request.domain, csn))
        _make_folders(draft, paths, view, commit)
        draft.add("create", commit, packed(request.commit[1], csn, transaction), role=Role.HEAD)
    return SeenHead(version, csn or head.csn, index, transaction)


def with_changes(index: Index, keys: Iterable[Key], version: int) -> Index:
    """Return *index* after a transaction that wrote the tables *keys* and gave the head *version*."""
    fresh = {(key.partition, key.item): Changed(key.partition, key.item, version) for key in keys}
    if not fresh:
        return index
    kept = [one for one in index.tail if (one.partition, one.item) not in fresh]
    return Index(index.checkpoint, index.previous, (*kept, *fresh.values()))


def folders_of(paths: Paths, domain: DomainName, keys: Iterable[Key], *, number: bool) -> list[str]:
    """The folders in which nodes for *keys*, and for a commit, would be made."""
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
