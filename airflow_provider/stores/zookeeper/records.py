"""Read records by their nodes, and commits by number.

**Tables at one head.** Every transaction that writes or deletes a table's record also sets the head. So a client does
not read its tables again while the head has the same version: a cut asks for the head only. (As long as the connection
lasts: the server of the next one may lag behind the head, or have been restored.)

**Commits by number.** Their numbers have no gaps, so they are never listed. Old ones are folded, 64 to a node; a
commit that is not found in one of the two places is looked for in the other.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from airflow_provider.domain.errors import StoreIncompatible
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.records import Key, Kind, Stamped, commit_item
from airflow_provider.stores import codec
from airflow_provider.stores.base import commit_key
from airflow_provider.stores.zookeeper.clock import moment
from airflow_provider.stores.zookeeper.known import (
    CLEARED,
    Floor,
    Known,
    Partition,
    Seen,
    SeenHead,
    SeenTable,
    partition_of,
)
from airflow_provider.stores.zookeeper.nodes import (
    Node,
    base_of,
    unpacked,
    unpacked_copies,
    unpacked_floor,
)
from airflow_provider.stores.zookeeper.paths import Paths, decoded
from airflow_provider.stores.zookeeper.session import Deadline, Get, Request, Session

FEW_TABLES = 16
"""Maximum number of tables that are read together with the head, in one flight."""
SEGMENT = 64
"""Number of commits that are folded into one node."""
UNFOLDED = 64
"""Minimum number of the newest commits that have nodes of their own."""
_FLIGHT = 1000
"""Maximum number of records asked for at once."""
_TRIES = 5
"""Number of looks for a commit that may be folded meanwhile."""


def children(path: str) -> Request:
    return lambda client: client.get_children_async(path)


class Records:
    """Reader of a store's records, which learns hints from all that it reads."""

    def __init__(self, session: Session, paths: Paths, known: Known) -> None:
        self._session, self._paths, self._known = session, paths, known
        self.sync: Request = lambda client: client.sync_async(paths.domains)
        """Request that makes the connected server catch up with all commits that were made before it."""

    def look(
        self,
        domain: DomainName,
        keys: Sequence[Key[Any]],
        deadline: Deadline,
        *,
        more: Sequence[Request] = (),
    ) -> tuple[SeenHead, dict[Key[Any], Stamped[Any]], list[Any]]:
        """Return the head, the records of those *keys* that exist, and the answers to *more*, which is asked first.

        The order of the flight counts: the head is read before the records, as the contract of ``read`` demands, and a
        folder's floor before the records in the folder.
        """
        wanted = list(dict.fromkeys(keys))
        generation = self._session.generation
        tables = [key for key in wanted if key.kind is Kind.TABLE]
        apart = set(tables) if len(tables) > FEW_TABLES else set()
        nodes = [key for key in wanted if key not in apart and key.kind is not Kind.COMMIT]
        floors = self.unknown_floors(nodes)
        more = [*more, *(Get(self._paths.partition(*partition)) for partition in floors)]
        answers = self._session.ask(
            deadline,
            [
                self.sync,
                *more,
                Get(self._paths.head(domain)),
                *(Get(self._paths.record(key)) for key in nodes),
            ],
        )[1:]
        asked = answers[: len(more) - len(floors)]
        self.learn_floors(floors, answers[len(asked) : len(more)])
        head = self.see_head(domain, answers[len(more)])
        found = self.learn(nodes, answers[len(more) + 1 :])
        if apart:
            found |= self.tables(tables, head, generation, deadline)
        csns = {csn: key for key in wanted if key.kind is Kind.COMMIT and (csn := csn_of(key)) is not None}
        commits = self.commits(domain, csns, head.csn, deadline)
        found |= {csns[csn]: commit for csn, commit in commits.items()}
        return head, found, asked

    def head(self, domain: DomainName, deadline: Deadline) -> SeenHead:
        """Return the head as it is now."""
        _, answer = self._session.ask(deadline, [self.sync, Get(self._paths.head(domain))])
        return self.see_head(domain, answer)

    def see_head(self, domain: DomainName, answer: Any) -> SeenHead:
        """Learn the head from kazoo's answer."""
        if answer is None:
            seen = SeenHead()
        else:
            node = unpacked(self._paths.head(domain), answer[0])
            seen = SeenHead(answer[1].version, node.csn or 0, node.transaction)
        self._known.heads[domain] = seen
        return seen

    def nodes(self, keys: Sequence[Key[Any]], deadline: Deadline) -> dict[Key[Any], Stamped[Any]]:
        """Return the records of those *keys* that exist, each from its node."""
        found: dict[Key[Any], Stamped[Any]] = {}
        for first in range(0, len(keys), _FLIGHT):
            flight = keys[first : first + _FLIGHT]
            found |= self.learn(
                flight, self._session.ask(deadline, [Get(self._paths.record(key)) for key in flight])
            )
        return found

    def learn(self, keys: Sequence[Key[Any]], answers: Sequence[Any]) -> dict[Key[Any], Stamped[Any]]:
        """Learn the nodes of *keys* from kazoo's answers; return the records among them."""
        found = {}
        for key, answer in zip(keys, answers, strict=True):
            if answer is None:
                self._known.see(key, None)
                continue
            data, stat = answer
            stamped = self.stamped(key, data, stat.version, stat.mtime)
            self._known.see(key, Seen(stat.version, stamped is not None, base_of(data)))
            if stamped is not None:
                found[key] = stamped
        return found

    def stamped(self, key: Key[Any], data: bytes, version: int, at_ms: int) -> Stamped[Any] | None:
        """Return the record in a node, None for a deleted one."""
        before = self._known.decoded.get(key)
        if before is not None and (before.version, before.at) == (base_of(data) + version + 1, moment(at_ms)):
            return before  # the time is compared because a restored store gives out versions again
        node = unpacked(key, data)
        if node.body is None:
            return None
        return self._known.keep(_stamped(key, node, node.base + version + 1, at_ms))

    def unknown_floors(self, keys: Iterable[Key[Any]]) -> list[Partition]:
        """Return the partitions of *keys* in which deleted records are cleared away, and whose floor is not known."""
        partitions = dict.fromkeys(partition_of(key) for key in keys if key.kind in CLEARED)
        return [partition for partition in partitions if partition not in self._known.floors]

    def learn_floors(self, partitions: Sequence[Partition], answers: Sequence[Any]) -> None:
        """Learn floors from kazoo's answers. A new floor makes records forgotten, so these are learned after it."""
        for partition, answer in zip(partitions, answers, strict=True):
            floor = Floor(None, 0) if answer is None else Floor(answer[1].version, unpacked_floor(answer[0]))
            self._known.see_floor(partition, floor)

    # --- ranges ----------------------------------------------------------------------------------------------

    def scan(
        self,
        domain: DomainName,
        kind: Kind,
        partition: str,
        *,
        within: Callable[[list[str]], list[str]],
        limit: int | None,
        deadline: Deadline,
    ) -> list[Stamped[Any]]:
        """Return the records of a partition.

        :param within: chooses and orders the items, given all, sorted.
        """
        path = self._paths.partition(domain, kind, partition)
        generation, asked = self._session.generation, [self.sync]
        if kind is Kind.TABLE:
            asked.append(Get(self._paths.head(domain)))
        _, *answers, names = self._session.ask(deadline, [*asked, children(path)])
        read: Callable[[Sequence[Key[Any]]], dict[Key[Any], Stamped[Any]]] = partial(
            self.nodes, deadline=deadline
        )
        if answers:
            head = self.see_head(domain, *answers)
            read = partial(self.tables, head=head, generation=generation, deadline=deadline)
        if names is None:
            return []
        self._known.see_folders([*self._paths.parents(path), path])
        keys = [Key(domain, kind, partition, item) for item in within(sorted(map(decoded, names)))]
        found: list[Stamped[Any]] = []
        first = 0
        while first < len(keys) and (limit is None or len(found) < limit):
            size = _FLIGHT if limit is None else max(limit - len(found), 1)
            flight = keys[first : first + size]
            records = read(flight)
            found += [records[key] for key in flight if key in records]
            first += size
        return found

    def commits_between(
        self,
        domain: DomainName,
        *,
        start: str | None,
        end: str | None,
        limit: int | None,
        reverse: bool,
        deadline: Deadline,
    ) -> list[Stamped[Any]]:
        """Return commits whose item is in a range, in order."""
        head = self.head(domain, deadline)
        numbers = range(1, head.csn + 1)
        low = 0 if start is None else bisect_left(numbers, start, key=commit_item)
        high = len(numbers) if end is None else bisect_left(numbers, end, key=commit_item)
        wanted = numbers[low:high]
        chosen = list(reversed(wanted) if reverse else wanted)[:limit]
        found = self.commits(domain, chosen, head.csn, deadline)
        return [found[csn] for csn in chosen]

    # --- tables ----------------------------------------------------------------------------------------------

    def tables(
        self, keys: Sequence[Key[Any]], head: SeenHead, generation: int, deadline: Deadline
    ) -> dict[Key[Any], Stamped[Any]]:
        """Return the records of those tables *keys* that exist, as of *head* or later.

        :param generation: of the connection, taken before *head* was asked for.
        """
        found: dict[Key[Any], Stamped[Any]] = {}
        for key in keys:
            table = self._known.tables.get(key)
            if table is not None and (table.head, table.generation) == (head, generation):
                found[key] = table.stamped
                self._known.see(key, table.seen)
        read = self.nodes([key for key in keys if key not in found], deadline)
        for key, stamped in read.items():
            seen = self._known.records.get(key)
            if seen is not None:
                self._known.keep_table(SeenTable(head, generation, stamped, seen))
        return found | read

    # --- commits ---------------------------------------------------------------------------------------------

    def commits(
        self, domain: DomainName, csns: Iterable[int], head_csn: int, deadline: Deadline
    ) -> dict[int, Stamped[Any]]:
        """Return the commits *csns* by CSN; numbers above the head *head_csn* are left out.

        :raises StoreIncompatible: a commit below the head is missing.
        """
        found: dict[int, Stamped[Any]] = {}
        missing = [csn for csn in csns if 1 <= csn <= head_csn]
        for attempt in range(_TRIES):
            if not missing:
                return found
            # First each commit where it probably is. Then both places, the segment first: a commit is moved from its
            # node into the segment in one transaction, possibly between our two looks.
            folded = [csn for csn in missing if attempt or is_old(csn, head_csn)]
            own = [csn for csn in missing if attempt or not is_old(csn, head_csn)]
            found |= self._from_segments(domain, folded, deadline)
            found |= self._from_nodes(domain, [csn for csn in own if csn not in found], deadline)
            missing = [csn for csn in missing if csn not in found]
        raise StoreIncompatible(
            f"{self._session.location}: the commit {missing[0]} of {domain!r} is missing; the head is {head_csn}.",
            next_step="restore the store from a backup; never edit it by hand.",
            key=commit_key(domain, missing[0]),
            expected="a commit record for every number",
        )

    def _from_nodes(
        self, domain: DomainName, csns: Sequence[int], deadline: Deadline
    ) -> dict[int, Stamped[Any]]:
        found = {}
        for first in range(0, len(csns), _FLIGHT):
            flight = csns[first : first + _FLIGHT]
            paths = [self._paths.record(commit_key(domain, csn)) for csn in flight]
            answers = self._session.ask(deadline, [Get(path) for path in paths])
            for csn, answer in zip(flight, answers, strict=True):
                if answer is not None:
                    found[csn] = _commit(domain, csn, answer[0], answer[1].mtime)
        return found

    def _from_segments(
        self, domain: DomainName, csns: Sequence[int], deadline: Deadline
    ) -> dict[int, Stamped[Any]]:
        numbers = dict.fromkeys(segment_of(csn) for csn in csns)
        paths = [segment_path(self._paths, domain, number) for number in numbers]
        answers = self._session.ask(deadline, [Get(path) for path in paths]) if paths else []
        copies = {
            copy.item: copy
            for path, answer in zip(paths, answers, strict=True)
            if answer is not None
            for copy in unpacked_copies(path, answer[0])
        }
        return {
            csn: _commit(domain, csn, copy.data, copy.at_ms)
            for csn in csns
            if (copy := copies.get(commit_item(csn))) is not None
        }


def _commit(domain: DomainName, csn: int, data: bytes, at_ms: int) -> Stamped[Any]:
    """Decode a commit. Its version is its CSN: a commit is written once, in a node or folded."""
    key = commit_key(domain, csn)
    return _stamped(key, unpacked(key, data), csn, at_ms)


def _stamped(key: Key[Any], node: Node, version: int, at_ms: int) -> Stamped[Any]:
    return Stamped(key, codec.decode(key, node.body or b""), version, node.csn, moment(at_ms))


def csn_of(key: Key[Any]) -> int | None:
    """Return the CSN that a commit's key names, None if no commit can have that key."""
    item = key.item
    if key.partition or not (item.isascii() and item.isdigit()) or commit_item(int(item)) != item:
        return None
    return int(item)


def segment_of(csn: int) -> int:
    """Return the number of the segment into which a commit is folded."""
    return (csn - 1) // SEGMENT


def segment_path(paths: Paths, domain: DomainName, number: int) -> str:
    return f"{paths.folder(domain, 'segments')}/{number:010d}"


def is_old(csn: int, head_csn: int) -> bool:
    """Return whether the commit *csn* is probably folded at the head *head_csn*."""
    return (segment_of(csn) + 1) * SEGMENT + UNFOLDED <= head_csn
