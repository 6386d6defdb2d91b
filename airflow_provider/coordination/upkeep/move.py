"""Moving a domain from one store to another, with its order and its numbers.

The receiving store stamps versions, times and numbers itself, as for every transaction: the commits are made again
in their order, each with the records that it wrote last, so that every record keeps its CSN. Records without a
number are copied before. Each step may be repeated: an interrupted move is run again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeVar
from uuid import uuid4

from airflow_provider.coordination.commits.dropped import refuse_unfinished
from airflow_provider.coordination.commits.open_restatements import (
    open_restatements,
    refuse_open_restatements,
)
from airflow_provider.coordination.commits.places import refuse_elsewhere, refuse_other_warehouse
from airflow_provider.coordination.commits.pointers import as_recorded, follow
from airflow_provider.coordination.commits.sealed import DomainMoved
from airflow_provider.coordination.context import Context
from airflow_provider.coordination.upkeep.compact import end_open
from airflow_provider.coordination.upkeep.live import busy, live_attempts
from airflow_provider.coordination.upkeep.moved_records import batches, contents, records
from airflow_provider.coordination.upkeep.relocate import Relocating
from airflow_provider.domain.errors import Conflict, InvalidInput, UnknownName
from airflow_provider.domain.identifiers import DomainName, TableName, domain_name
from airflow_provider.domain.lease import LeaseRecord
from airflow_provider.domain.records import (
    Stamped,
    table_key,
    topology_key,
)
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.topology import Table
from airflow_provider.domain.topology_record import Move, MoveState, TopologyRecord
from airflow_provider.domain.version import TableRecord
from airflow_provider.stores.base import (
    Absent,
    Delete,
    Exists,
    MetadataReader,
    MetadataStore,
    Number,
    Put,
    SameStore,
    Transaction,
    pages,
)

Answer = TypeVar("Answer")


@dataclass(frozen=True, kw_only=True, slots=True)
class MovedDomain:
    """Answer of :func:`move_domain`.

    :param csn: its last commit. :param records: number without the commits. :param tables: those whose pointers moved.
    """

    domain: DomainName
    csn: int
    records: int
    tables: tuple[str, ...]


def move_domain(
    source: Context,
    target: Context,
    domain: str,
    *,
    source_place: str,
    target_place: str,
    warehouse: bool = False,
) -> MovedDomain:
    """Move *domain* with all its history; afterwards the source takes no change of it, and names the target.

    An interrupted move is continued; after a complete move it changes nothing.

    :param source_place: address of the source for messages, without a password. :param target_place: likewise.
    :param warehouse: the target names another warehouse, to which the files were copied; records are led there.
    :raises UnknownName: nothing is registered in the domain.
    :raises EpochBusy: attempts or leases are live; nothing was changed. ``holders`` lists them.
    :raises InvalidInput: the target has the domain, cannot keep its tables, or is the source.
    :raises DomainMoved: it has moved elsewhere already.
    :raises WrongWarehouse: its files are in another warehouse than the source or the target names (R33).
    :raises WrongCatalog: its tables are in another catalog than the source names.
    :raises Unavailable: with *warehouse*: files were not copied; the source is unchanged.
    """
    name = domain_name(domain)
    led = Relocating()
    if warehouse:
        led = Relocating.between(name, source.formats.warehouse, target.formats.warehouse)
    mover = _Mover(source, target, name, led, source_place=source_place, target_place=target_place)
    return mover.run()


class _Mover:
    def __init__(
        self,
        source: Context,
        target: Context,
        domain: DomainName,
        led: Relocating,
        *,
        source_place: str,
        target_place: str,
    ) -> None:
        self.source, self.target, self.domain, self.led = source, target, domain, led
        self.incarnations = tuple(side.store.read(domain, []).head.incarnation for side in (source, target))
        self.leaving = Move(state=MoveState.LEAVING, place=target_place, incarnation=self.incarnations[1])
        self.arriving = Move(state=MoveState.ARRIVING, place=source_place, incarnation=self.incarnations[0])
        self.found: Move | None = None  # in the source, before this process has sealed it
        self.before: Move | None = None  # what it is if this process takes its seal off
        self.seal = uuid4().hex  # others write the topology meanwhile, such as a vacuum under way
        self.sealed = 0  # version of the source's topology that this process has sealed
        self.key = topology_key(domain)

    def run(self) -> MovedDomain:
        if not self._arrived():
            self._check()
            self._retry(self._seal)
            self._refuse_live()
            self._retry(self._seal)  # anew: a process that has met live work takes off no later seal
            self._end_compactions()
            self._retry(self._announce)
            self.led = self.led.files(self.target.formats, sorted({table.format for table in self._tables()}))
            self._retry(self._copy_unnumbered)
            self._retry(self._copy_commits)
            self._retry(self._remove_deleted)
            tables = self._move_pointers()
            self._compare()
            self.led.refuse_missing(self.target.store, self.target.formats, self.domain, self.target.defaults)
            self._mark(
                self.target.store, replace(self.arriving, state=MoveState.ARRIVED), after=self.arriving
            )
        else:
            tables = [table.name for table in self._tables()]
        self._mark(self.source.store, replace(self.leaving, state=MoveState.GONE), after=self.leaving)
        return MovedDomain(
            domain=self.domain,
            csn=self.target.store.read(self.domain, []).head.csn,
            records=sum(1 for _ in records(self.target.store, self.domain)),
            tables=tuple(sorted(tables)),
        )

    # --- whether it may be moved -----------------------------------------------------------------------------

    def _arrived(self) -> bool:
        """Return whether an earlier move has done all but perhaps its last step."""
        found = self._topology(self.target.store)
        move = None if found is None else found.record.move
        return bool(move and (move.state, move.incarnation) == (MoveState.ARRIVED, self.incarnations[0]))

    def _check(self) -> None:
        here, there = self._topology(self.source.store), self._topology(self.target.store)
        if self.incarnations[0] == self.incarnations[1]:
            raise InvalidInput(field="to", value=self.leaving.place, expected="another store than the source")
        if here is None:
            raise UnknownName(
                f"domain {self.domain!r} is not in {self.arriving.place}.",
                next_step="see `airflow epochs status`; check --domain and --from.",
                domain=self.domain,
            )
        move = here.record.move
        goes_on = self.leaving.goes_on(move)
        if move is not None and move.state is not MoveState.ARRIVED and not goes_on:
            raise DomainMoved(
                f"domain {self.domain!r}: a move to or from {move.place} has begun ({move.state}).",
                next_step="end that move first; where its store is lost, make it anew at its address before."
                if move.state is MoveState.LEAVING
                else "see that store.",
                domain=self.domain,
                place=move.place,
            )
        self.found, self.before = move, None if goes_on else move
        head = self.target.store.read(self.domain, []).head.csn
        if head if there is None else not self.arriving.goes_on(there.record.move):
            raise InvalidInput(
                field="to",
                value=self.leaving.place,
                expected=f"a store without the domain {self.domain!r}",
                next_step="two histories cannot become one: choose another store.",
            )
        refuse_elsewhere(self.domain, here, self.source.formats)
        refuse_elsewhere(self.domain, there, self.target.formats)  # where it has begun
        if not self.led.names:
            refuse_other_warehouse(self.domain, here, self.target.formats.warehouse)
        for table in self._tables():
            self.target.formats[table.format]  # :raises InvalidInput: it cannot be used beside that store
        self.led.refuse_incomplete(self.target.formats, self._pointers())

    def _seal(self) -> None:
        """Let nothing begin in the source; a transaction decided on its earlier topology fails and is decided anew.

        :raises Conflict: another move has begun, or has taken the seal off.
        """
        found = self._topology(self.source.store)
        expected = (self.leaving,) if self.sealed else (self.leaving, self.found)
        if found is None or found.record.move not in expected:
            raise Conflict(
                f"another move of domain {self.domain!r} goes on.", next_step="run this one again."
            )
        self.sealed = self._written(self.source.store, found, replace(self.leaving, seal=self.seal))

    def _unseal(self) -> None:
        """Take the seal of this process off, not that of another one, which goes on with the move."""
        found = self._topology(self.source.store)
        move = None if found is None else found.record.move
        if found is None or move != self.leaving:
            return
        # A store of an older format keeps no id.
        if move.seal == self.seal if move.seal else found.version == self.sealed:
            self._written(self.source.store, found, self.before)

    def _refuse_live(self) -> None:
        """Fence silent attempts; if others are live, unseal the source and refuse to move.

        :raises EpochBusy: leases or attempts are live, a restatement is open, or a drop has not ended.
        """
        store = self.source.store
        reason = f"silent when the domain was moved to {self.leaving.place}"
        live = [*live_attempts(self.source, self.domain, reason), *pages(store, self.domain, LeaseRecord)]
        here = self._topology(store)
        dropping = here is not None and here.record.dropping is not None
        if not live and not dropping and not open_restatements(store, self.domain):
            return
        if self._topology(self.target.store) is None:
            self._retry(self._unseal)
        if not live:
            refuse_unfinished(self.domain, f"the move of domain {self.domain!r}", here)
            refuse_open_restatements(store, self.domain, f"the move of domain {self.domain!r}")
        raise busy(self.domain, live, "pause the DAGs, let their tasks and readers end, and move it then.")

    def _end_compactions(self) -> None:
        """Delete the files of compactions that have not committed; after the seal they cannot."""
        tables = [table.name for table in self._tables()]
        end_open(self.source, self.domain, tables, f"its domain was moved to {self.leaving.place}")

    # --- copying ---------------------------------------------------------------------------------------------

    def _announce(self) -> None:
        """Keep others from using the domain in the target until it has arrived."""
        there = self._topology(self.target.store)
        if there is not None and not self.arriving.goes_on(there.record.move):
            return
        found = self._topology(self.source.store)
        known = found.record if found else TopologyRecord(generation=0)
        record = replace(
            known,  # anew: the source may have been restored since an earlier try, and have gone on
            generation=1 if there is None else there.record.generation + 1,
            move=self.arriving,
            warehouse=self.target.formats.warehouse if self.led.names else known.warehouse,
            catalog=self.target.formats.catalog,
        )
        self.target.store.transact(
            Transaction(
                domain=self.domain,
                store=SameStore(self.incarnations[1]),
                requires=(Absent(self.key) if there is None else Exists(self.key, there.version),),
                updates=(Put(self.key, record),),
            )
        )

    def _copy_unnumbered(self) -> None:
        every = records(self.source.store, self.domain)
        copied = (self.led.stamped(record) for record in every if record.csn is None)
        for batch in batches(copied):
            self._update(Put(stamped.key, stamped.record) for stamped in batch)

    def _copy_commits(self) -> None:
        """Make the commits again from the target's head on."""
        written: defaultdict[int, list[Put]] = defaultdict(list)
        for stamped in records(self.source.store, self.domain):
            if stamped.csn is not None:
                record = self.led.record(stamped.key, stamped.record)
                written[stamped.csn].append(Put(stamped.key, record))
        store = self.target.store
        head = store.read(self.domain, []).head.csn
        while commits := self.source.store.changes(self.domain, head):
            for commit in commits:
                head += 1
                store.transact(
                    Transaction(
                        domain=self.domain,
                        store=SameStore(self.incarnations[1]),
                        requires=(self._still_arriving(),),
                        updates=tuple(written[head]),
                        # Not made by CommitBuilder: the source store has decided on the commit, which keeps its CSN.
                        number=Number(self.led.record(commit.key, commit.record), expected=head),
                    )
                )

    def _remove_deleted(self) -> None:
        """Delete what an earlier try has copied and the source has deleted since, such as by a vacuum under way."""
        here = {stamped.key for stamped in records(self.source.store, self.domain)}
        there = records(self.target.store, self.domain)
        for batch in batches(stamped for stamped in [*there] if stamped.key not in here):
            self._update(Delete(stamped.key) for stamped in batch)

    def _update(self, updates: Iterable[Put | Delete]) -> None:
        """Apply *updates* to the target, while the domain is on its way there."""
        self.target.store.transact(
            Transaction(
                domain=self.domain,
                store=SameStore(self.incarnations[1]),
                requires=(self._still_arriving(),),
                updates=tuple(updates),
            )
        )

    def _move_pointers(self) -> list[str]:
        """Register the tables, at their present pointers, in the catalog beside the target."""
        for table in self._tables():  # inside of a store no later commit repairs a pointer
            record = self.source.store.read(self.domain, [table_key(self.domain, table.name)])
            follow(self.source.formats, record, [table])
        moved: list[str] = []
        for table, pointer in self._pointers():
            self._still_arriving()  # else the target's pointer is its own by now
            self.target.formats[table.format].register(table, self.led.uri(pointer))
            moved.append(table.name)
        return moved

    def _pointers(self) -> list[tuple[Table, str]]:
        """Return the tables in the catalog beside the source, each with its pointer."""
        found = ((table, self.source.formats[table.format].describe(table)) for table in self._tables())
        return [(table, info.pointer) for table, info in found if info is not None]

    def _compare(self) -> None:
        """:raises Conflict: records of the target differ from those of the source."""
        here, there = (contents(side.store, self.domain) for side in (self.source, self.target))
        here = {key: (self.led.record(key, record), csn) for key, (record, csn) in here.items()}
        here[self.key], there[self.key] = (self._common(side.store) for side in (self.source, self.target))
        if here != there:
            different = sorted(key for key in here.keys() | there.keys() if here.get(key) != there.get(key))
            raise Conflict(
                f"{len(different)} records of domain {self.domain!r} differ, such as {different[0]}.",
                next_step="run the move again; if they still differ, make the target anew at its address before.",
                keys=tuple(different),
            )

    def _common(self, store: MetadataStore) -> tuple[TopologyRecord | None, None]:
        """Return what the topologies of both stores have in common."""
        found = self._topology(store)
        if found is None:
            return None, None
        return replace(found.record, generation=0, move=None, warehouse="", catalog=""), None

    # --- the parts of it --------------------------------------------------------------------------------------

    def _topology(self, reader: MetadataReader) -> Stamped[TopologyRecord] | None:
        return reader.read(self.domain, [self.key]).get(self.key)

    def _still_arriving(self) -> Exists:
        found = self._topology(self.target.store)
        if found is None or found.record.move != self.arriving:
            raise self._ended()
        return Exists(self.key, found.version)

    def _ended(self) -> Conflict:
        return Conflict(f"another move of domain {self.domain!r} has ended.", next_step="run it again.")

    def _mark(self, store: MetadataStore, move: Move, *, after: Move) -> None:
        """Write the state of the move into an existing topology.

        :param after: the state that alone it follows.
        :raises Conflict: another process has ended the move, and the domain has moved on since, or was given back.
        """

        def write() -> None:
            found = self._topology(store)
            if found is None or move.goes_on(found.record.move):
                return
            if not after.goes_on(found.record.move):
                raise self._ended()
            self._written(store, found, move)

        self._retry(write)

    def _written(self, store: MetadataStore, found: Stamped[TopologyRecord], move: Move | None) -> int:
        """Write the state of the move into the topology as it was *found*; return its version."""
        record = replace(found.record, generation=found.record.generation + 1, move=move)
        receipt = store.transact(
            Transaction(
                domain=self.domain,
                store=SameStore(self.incarnations[1 if store is self.target.store else 0]),
                requires=(Exists(self.key, found.version),),
                updates=(Put(self.key, record),),
            )
        )
        return receipt.versions[self.key]

    def _jobs(self) -> list[JobRecord]:
        return [stamped.record for stamped in pages(self.source.store, self.domain, JobRecord)]

    def _tables(self) -> list[Table]:
        """Return the tables that jobs declare, and those that they have left."""
        found = {table.name: table for job in self._jobs() for table in job.outputs}
        for stamped in pages(self.source.store, self.domain, TableRecord):
            if stamped.record.ref is not None:
                found.setdefault(TableName(stamped.key.item), as_recorded(stamped, stamped.record.ref))
        return list(found.values())

    def _retry(self, operation: Callable[[], Answer]) -> Answer:
        """Run *operation*, again after a lost reply or a lost race."""
        return self.target.retry(
            operation,
            Conflict(
                f"domain {self.domain!r}: others kept changing what is moved.", next_step="move it again."
            ),
        )
