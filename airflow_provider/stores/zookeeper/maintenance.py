"""Keep reading cheap behind a transaction: make checkpoints and segments, clear deleted records away.

Nothing depends on this work: if a client is interrupted, it leaves nodes without references, and the next client
does the work again. None of it changes what is read.

**A checkpoint is never wrong.** Its author reads the head at version *v*, then the nodes of all tables in the tail
(and the former checkpoint for the others), and writes the copies into new nodes, to which nothing refers yet. Then it
sets the head, at the version that it has by now, to the new checkpoint and to those entries of the tail that are
younger than *v*. A table without such an entry was not written since *v*: its copy is its node's content at *v* and
at the head that is being set. A table with such an entry is read from its node. The head is set only if it still
names the former checkpoint, if all parts of the new one are there, and if the nodes were read over the same connection
as the head, since the server of another connection may lag behind it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from random import Random
from typing import Any

from kazoo.exceptions import KazooException

from airflow_provider.domain.errors import EpochError
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.records import Key, Kind, commit_item
from airflow_provider.stores.base import commit_key
from airflow_provider.stores.zookeeper.known import (
    CLEARED,
    Known,
    Partition,
    SeenCheckpoint,
    SeenHead,
    partition_of,
)
from airflow_provider.stores.zookeeper.nodes import (
    Checkpoint,
    Copy,
    Index,
    base_of,
    is_deleted,
    new_transaction,
    packed_copies,
    packed_floor,
    packed_head,
    unpacked_floor,
)
from airflow_provider.stores.zookeeper.paths import Paths, decoded
from airflow_provider.stores.zookeeper.planning import Plan
from airflow_provider.stores.zookeeper.records import (
    SEGMENT,
    UNFOLDED,
    Records,
    checkpoint_parts,
    children,
    segment_path,
)
from airflow_provider.stores.zookeeper.session import Deadline, Get, Operation, ReplyLostError, Session

log = logging.getLogger(__name__)

LONGEST_TAIL = 32
"""Number of tables in the tail above which a checkpoint is made; a sixteenth of all tables, if that is more."""
MAX_PART_BYTES = 400_000
"""Largest node of a checkpoint or a segment, before it is compressed."""
_CHANCE = 1 / 8
"""Probability that a commit that finds the tail too long shortens it: the client whose turn it was may have failed."""
_TRIES = 20
_FEWEST_CLEARED = 32
"""Number of empty nodes that are worth a transaction; about as many stay in a folder."""
_MOST_CLEARED = 500
_LONGEST_S = 5.0
"""Time for which the caller of a finished commit waits for maintenance at most."""
_MOST_SEGMENTS = 8
"""Maximum number of segments made behind one commit, if earlier commits have left some out."""


class Maintenance:
    """Maintenance of one store, done by its clients after their transactions."""

    def __init__(self, session: Session, paths: Paths, known: Known, records: Records) -> None:
        self._session, self._paths, self._known, self._records = session, paths, known, records
        self.random = Random()  # noqa: S311 - the choice of the client that tidies up needs no secrecy

    def follow(self, plan: Plan, deadline: Deadline) -> None:
        """Do the maintenance that a transaction makes due; never fails."""
        deadline = Deadline(min(_LONGEST_S, deadline.left_s()))
        try:
            for partition in {partition_of(key) for key in plan.deletes if key.kind in CLEARED}:
                if self.random.random() < 1 / _FEWEST_CLEARED:
                    self.clear(partition, deadline)
            if plan.head is not None:
                self._follow_head(plan.domain, plan.before, plan.head, deadline)
        except (EpochError, ReplyLostError) as error:
            log.info("%s: maintenance was left to the next commit: %s", self._session.location, error)

    def _follow_head(self, domain: DomainName, before: SeenHead, after: SeenHead, deadline: Deadline) -> None:
        if after.csn > before.csn and after.csn % SEGMENT == 0:
            self.fold(domain, after.csn, deadline)
        limit = self.limit(domain)
        was, now = len(before.index.tail), len(after.index.tail)
        if now > limit and (was <= limit or self.random.random() < _CHANCE):
            self.checkpoint(domain, deadline)

    def clear(self, partition: Partition, deadline: Deadline) -> int:
        """Remove the empty nodes of deleted records of *partition*; return their number.

        The same transaction gives the folder a base above all their versions. Every transaction that requires or makes
        a record in the folder checks the folder's version, so that none takes a new node for one that was removed.
        """
        path = self._paths.partition(*partition)
        _, folder, names = self._session.ask(deadline, [self._records.sync, Get(path), children(path)])
        if folder is None:
            return 0
        paths = [f"{path}/{name}" for name in names or []]
        empty = [
            (node, stat.version, base_of(data))
            for node, (data, stat) in self._there(paths, deadline)
            if is_deleted(data)
        ][:_MOST_CLEARED]
        if len(empty) < _FEWEST_CLEARED:
            return 0
        floor = max(unpacked_floor(folder[0]), *(base + version + 1 for _, version, base in empty))
        answers = self._session.change(
            deadline,
            [
                Operation("set_data", path, packed_floor(floor), folder[1].version),
                *(Operation("delete", node, version=version) for node, version, _ in empty),
            ],
        )
        self._known.forget_floor(partition)
        return 0 if _failed(answers) else len(empty)

    def _there(self, paths: Sequence[str], deadline: Deadline) -> list[tuple[str, Any]]:
        answers = self._session.ask(deadline, [Get(path) for path in paths])
        return [(path, answer) for path, answer in zip(paths, answers, strict=True) if answer is not None]

    def limit(self, domain: DomainName) -> int:
        """Return the maximum length of the tail."""
        checkpoint = self._known.checkpoints.get(domain)
        return max(LONGEST_TAIL, len(checkpoint.copies) // 16 if checkpoint else 0)

    # --- checkpoints -----------------------------------------------------------------------------------------

    def checkpoint(self, domain: DomainName, deadline: Deadline) -> bool:
        """Make a checkpoint of the domain's tables; return whether the head names it now."""
        generation = self._session.generation
        head = self._records.head(domain, deadline)
        copies = self._copies(domain, head, deadline)
        # After a reconnect, the copies may come from a server that lags behind the head.
        if head.version is None or self._session.generation != generation:
            return False
        name = f"{head.csn:020d}-{new_transaction().hex()}"
        shards = shared_out(list(copies.values()))
        paths = checkpoint_parts(self._paths, domain, name, len(shards))
        for path, shard in zip(paths, shards, strict=True):
            if not self._create(path, packed_copies(shard, new_transaction()), deadline):
                return False
        made = self._publish(domain, head, Checkpoint(name, len(shards)), paths, deadline)
        if made:
            self._known.checkpoints[domain] = SeenCheckpoint(name, copies)
        self._sweep(domain, deadline)
        return made

    def _copies(self, domain: DomainName, head: SeenHead, deadline: Deadline) -> dict[tuple[str, str], Copy]:
        """Return copies of all tables as of *head* or later; unchanged ones come from the former checkpoint, if any."""
        former = self._records.checkpoint(domain, head, deadline)
        copies = dict(former.copies) if former else {}
        names = (
            [(changed.partition, changed.item) for changed in head.index.tail]
            if former
            else self._all(domain, deadline)
        )
        paths = [self._paths.record(Key(domain, Kind.TABLE, *name)) for name in names]
        for name, answer in zip(
            names, self._session.ask(deadline, [Get(path) for path in paths]), strict=True
        ):
            if answer is None or is_deleted(answer[0]):
                copies.pop(name, None)
            else:
                data, stat = answer
                copies[name] = Copy(*name, stat.version, stat.mtime, data)
        return copies

    def _all(self, domain: DomainName, deadline: Deadline) -> list[tuple[str, str]]:
        folder = f"{self._paths.domain(domain)}/{Kind.TABLE.value}"
        (partitions,) = self._session.ask(deadline, [children(folder)])
        names = sorted(partitions or [])
        items = self._session.ask(deadline, [children(f"{folder}/{name}") for name in names])
        return [
            (decoded(name), decoded(item))
            for name, found in zip(names, items, strict=True)
            for item in found or []
        ]

    def _publish(
        self, domain: DomainName, base: SeenHead, new: Checkpoint, paths: Sequence[str], deadline: Deadline
    ) -> bool:
        """Set the head to the checkpoint *new*, unless it names another one than *base* does by now.

        :param base: the head from which the checkpoint was made.
        :param paths: the parts of the checkpoint; a client that vacuumed them away meanwhile makes this fail.
        """
        for _ in range(_TRIES):
            head = self._records.head(domain, deadline)
            if head.index.checkpoint != base.index.checkpoint or head.version is None or base.version is None:
                return False
            younger = tuple(changed for changed in head.index.tail if changed.version > base.version)
            index = Index(new, head.index.checkpoint, younger)
            transaction = new_transaction()
            answers = self._session.change(
                deadline,
                [
                    *(Operation("check", path, version=0) for path in paths),
                    Operation(
                        "set_data",
                        self._paths.head(domain),
                        packed_head(index, head.csn, transaction),
                        head.version,
                    ),
                ],
            )
            if not _failed(answers):
                self._known.heads[domain] = SeenHead(head.version + 1, head.csn, index, transaction)
                return True
        return False

    def _sweep(self, domain: DomainName, deadline: Deadline) -> None:
        """Remove checkpoints that the head does not name: older ones, and those of interrupted authors.

        The previous one stays for readers that have read the head before it was set.
        """
        head = self._records.head(domain, deadline)
        kept = {head.index.checkpoint.name, head.index.previous.name}
        folder = self._paths.folder(domain, "checkpoints")
        (names,) = self._session.ask(deadline, [children(folder)])
        for name in names or []:
            if name.partition(".")[0] not in kept:
                self._session.send(deadline, _delete(f"{folder}/{name}"))

    # --- segments --------------------------------------------------------------------------------------------

    def fold(self, domain: DomainName, csn: int, deadline: Deadline) -> None:
        """Fold the commits that are old at the head *csn*, newest first, until a segment is folded already."""
        newest = (csn - UNFOLDED) // SEGMENT - 1
        for number in range(newest, max(-1, newest - _MOST_SEGMENTS), -1):
            if not self._fold(domain, number, deadline):
                return

    def _fold(self, domain: DomainName, number: int, deadline: Deadline) -> bool:
        """Move the commits of a segment into one node, all or none; return False if they were moved before."""
        csns = range(number * SEGMENT + 1, (number + 1) * SEGMENT + 1)
        paths = [self._paths.record(commit_key(domain, csn)) for csn in csns]
        answers = self._session.ask(deadline, [Get(path) for path in paths])
        if None in answers:
            return False
        copies = [
            Copy("", commit_item(csn), 0, stat.mtime, data)
            for csn, (data, stat) in zip(csns, answers, strict=True)
        ]
        if sum(len(copy.data) for copy in copies) > MAX_PART_BYTES:
            return True  # so large that each may keep its node
        deletes = [Operation("delete", path, version=0) for path in paths]
        return self._create(
            segment_path(self._paths, domain, number),
            packed_copies(copies, new_transaction()),
            deadline,
            more=deletes,
        )

    def _create(self, path: str, data: bytes, deadline: Deadline, *, more: Sequence[Operation] = ()) -> bool:
        """Create a node and its folders, together with *more*, all or nothing; return whether it was done."""
        folders = self._paths.parents(path)
        unknown = [folder for folder in folders if folder not in self._known.folders]
        there: list[Any] = self._session.ask(deadline, [Get(folder) for folder in unknown]) if unknown else []
        missing = [folder for folder, stat in zip(unknown, there, strict=True) if stat is None]
        answers = self._session.change(
            deadline,
            [*(Operation("create", folder) for folder in missing), Operation("create", path, data), *more],
        )
        if _failed(answers):
            return False
        self._known.see_folders(folders)
        return True


def shared_out(copies: Sequence[Copy]) -> list[list[Copy]]:
    """Split *copies* into lists that fit into one node each."""
    lists: list[list[Copy]] = [[]]
    size = 0
    for copy in copies:
        bytes_ = len(copy.data) + len(copy.partition.encode()) + len(copy.item.encode()) + 32
        if size + bytes_ > MAX_PART_BYTES and lists[-1]:
            lists.append([])
            size = 0
        lists[-1].append(copy)
        size += bytes_
    return lists


def _delete(path: str) -> Any:
    return lambda client: client.delete_async(path)


def _failed(answers: Sequence[Any]) -> bool:
    return any(isinstance(answer, KazooException) for answer in answers)
