"""Keep the number of nodes small behind a transaction: fold commits into segments, clear deleted records away.

Nothing depends on this work: if a client is interrupted, the next client does the work. None of it changes what is
read.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from random import Random
from typing import Any

from kazoo.exceptions import KazooException

from airflow_provider.domain.errors import EpochError
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.records import commit_item
from airflow_provider.stores.base import commit_key
from airflow_provider.stores.zookeeper.known import (
    CLEARED,
    Known,
    Partition,
    partition_of,
)
from airflow_provider.stores.zookeeper.nodes import (
    Copy,
    base_of,
    is_deleted,
    new_transaction,
    packed_copies,
    packed_floor,
    unpacked_floor,
)
from airflow_provider.stores.zookeeper.paths import Paths
from airflow_provider.stores.zookeeper.planning import Plan
from airflow_provider.stores.zookeeper.records import (
    SEGMENT,
    UNFOLDED,
    Records,
    children,
    segment_path,
)
from airflow_provider.stores.zookeeper.session import Deadline, Get, Operation, ReplyLostError, Session

log = logging.getLogger(__name__)

MAX_SEGMENT_BYTES = 400_000
"""Largest segment, before it is compressed."""
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
            if plan.csn is not None and plan.csn % SEGMENT == 0:
                self.fold(plan.domain, plan.csn, deadline)
        except (EpochError, ReplyLostError) as error:
            log.info("%s: maintenance was left to the next commit: %s", self._session.location, error)

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
        if sum(len(copy.data) for copy in copies) > MAX_SEGMENT_BYTES:
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


def _failed(answers: Sequence[Any]) -> bool:
    return any(isinstance(answer, KazooException) for answer in answers)
