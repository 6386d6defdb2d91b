"""Distance of the catalog's pointer from the store's record (R17).

Where a catalog lies outside of the store's database, the store's transaction is the commit and the pointer follows
it. So the pointer may lag behind the record, and it may be ahead of a record that was read a moment ago; any other
difference comes from another program. See docs/decisions/projection.md.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from airflow_provider.domain.errors import EpochError, ForeignCommit, StoreUnavailable, Unavailable
from airflow_provider.domain.foreign import Foreign
from airflow_provider.domain.topology import OnForeignCommit, Table
from airflow_provider.domain.version import TableRef
from airflow_provider.tables import checks
from airflow_provider.tables.base import Projected, Publication, TableFormat
from airflow_provider.tables.checks import Marks
from airflow_provider.tables.errors import TableDropped, TableRecreated, TablesAhead
from airflow_provider.tables.pointer_status import Compared, PointerStatus

log = logging.getLogger(__name__)

_PAUSES = tuple(min(0.02 * 2**number, 1.0) for number in range(12))
"""Seconds to wait before each try at moving a pointer that the catalog refused to move."""

_OWN = frozenset({PointerStatus.CURRENT, PointerStatus.BEHIND, PointerStatus.COMPACTED})

REMEMBERED = 25
"""Number of earlier descriptions that a description of a table names, and that are kept."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Description:
    """Table as one metadata file (Iceberg) describes it.

    :param version: 0 for a table that was never published. :param marks: the commit that the version carries.
    :param earlier: URIs of the last :data:`REMEMBERED` descriptions that it was made from.
    :param replaces: identities of the unpublished tables that this table replaced.
    """

    uri: str
    table_uuid: str
    version: int
    marks: Marks | None
    earlier: frozenset[str]
    replaces: frozenset[str] = frozenset()

    @property
    def csn(self) -> int:
        return 0 if self.marks is None else self.marks.csn

    def descends_from(self, other: Description) -> bool:
        """Return whether it was made from *other*; beyond the :data:`REMEMBERED` descriptions, CSNs decide."""
        if other.uri in self.earlier:
            return True
        if self.marks is None or len(self.earlier) < REMEMBERED:
            return False
        if other.marks is None:
            return other.version == 0
        return other.marks.precedes(self.marks)


def lags(pointed: Description, recorded: Description) -> bool:
    """Return whether the catalog's pointer has not yet reached the recorded version."""
    if pointed.table_uuid != recorded.table_uuid:
        # One attempt replaced the unpublished table in the catalog while another one published it.
        return pointed.version == 0 and recorded.table_uuid in pointed.replaces
    return pointed.version != recorded.version and recorded.descends_from(pointed)


def attempted(table_format: TableFormat, table: Table, recorded: TableRef) -> Projected | None:
    """Move the pointer of *table*; None if that fails, since the commit stands and the next touch moves it."""
    try:
        return table_format.project(table, recorded)
    except EpochError as error:
        note_lag(table, error)
        return None


def note_lag(table: Table, error: EpochError) -> None:
    """Log why the pointer of *table* stays behind a commit."""
    log.warning(
        "The catalog's pointer of table %s stays behind for now: %s",
        table.name,
        error,
        extra={"domain": table.domain, "table": table.name},
    )


def project(
    table_format: TableFormat, table: Table, recorded: TableRef, move: Callable[[str], bool]
) -> Projected:
    """Move the pointer if it is behind; see :meth:`TableFormat.project`.

    :param move: compare-and-set of the pointer from its argument to the recorded version; returns its success.
    """
    refused = ""
    for pause in _PAUSES:
        compared = table_format.compare(table, recorded)
        if compared.status is PointerStatus.FOREIGN:
            raise foreign_commit(table, recorded, compared)
        if compared.stops:
            raise stopped(table, recorded, compared.stops)
        if compared.status is not PointerStatus.BEHIND:
            return Projected(moved=False, csn=compared.csn, ahead=compared.status is PointerStatus.AHEAD)
        if (
            compared.pointer == refused
        ):  # The catalog is busy. Else another process moved the pointer in between.
            time.sleep(pause)
        if move(compared.pointer):
            return Projected(moved=True, csn=compared.csn)
        refused = compared.pointer
    raise StoreUnavailable(
        f"the catalog did not move the pointer of table {table.name!r}, {len(_PAUSES)} times.",
        next_step="nothing: the next touch of the table moves it.",
    )


def restore(table_format: TableFormat, table: Table, recorded: TableRef, move: Callable[[str], bool]) -> bool:
    """Register a dropped table again; see :meth:`TableFormat.restore`.

    :param move: as in :func:`project`.
    """
    while True:
        info = table_format.describe(table)
        if info is None:
            table_format.register(table, recorded.metadata)
            return True
        if info.table_uuid == recorded.table_uuid:
            return False
        if info.version:
            raise checks.recreated(table, recorded.table_uuid, info.table_uuid)
        if move(info.pointer):
            return True


def forget(
    table_format: TableFormat,
    table: Table,
    recorded: TableRef | None,
    remove: Callable[[str], bool],
    may_go: Callable[[], bool],
) -> bool:
    """Remove the entry of a table that the store has dropped; see :meth:`TableFormat.forget`.

    :param remove: compare-and-delete of the entry with the pointer of its argument; returns its success.
    :param may_go: returns whether this package has made the entry, if there is one, and the drop lasts. It is asked
        after the entry was read: what is removed was there before the drop ended.
    """
    if recorded is not None and recorded.metadata and remove(recorded.metadata):
        return True  # also where the files are gone
    for pause in _PAUSES:
        try:
            if table_format.describe(table) is None:
                return True
            found = table_format.compare(table, recorded)
        except TableDropped:
            return True
        except (TableRecreated, Unavailable):
            return False
        if found.status not in _OWN or (recorded is None and found.version) or not may_go():
            return False
        if remove(found.pointer):
            return True
        time.sleep(pause)
    raise StoreUnavailable(
        f"the catalog did not remove the entry of table {table.name!r}, {len(_PAUSES)} times.",
        next_step="try again.",
    )


def foreign_commit(table: Table, recorded: TableRef | None, found: Compared) -> ForeignCommit:
    """Build the error for a table whose rows another program changed."""
    expected = 0 if recorded is None else recorded.version
    ways = [roll_back(found), _way_back(recorded)] if found.undo else [_way_back(recorded)]
    if table.on_foreign_commit is not OnForeignCommit.ADOPT and not found.foreign.obstacle:
        ways.append("let its job declare on_foreign_commit='adopt'")
    return ForeignCommit(
        f"table {table.name!r} of domain {table.domain!r} is at version {found.version}, and the store published "
        f"{expected or 'nothing'}: another program wrote to it ({found.foreign}).",
        next_step=f"{', or '.join(ways)}. Write to tables of a domain through epochs only. Cuts go on reading what was "
        "published.",
        table=table.name,
        expected=str(expected),
        found=str(found.version),
        foreign=found.foreign,
    )


def stopped(table: Table, recorded: TableRef | None, stops: str) -> ForeignCommit:
    """Build the error for a table that another program gave a form in which no epoch can be published.

    :param stops: what it gave the table.
    """
    return ForeignCommit(
        f"another program gave table {table.name!r} of domain {table.domain!r} {stops}.",
        next_step=f"{_way_back(recorded)}, or write to a new table. Cuts go on reading what was published.",
        table=table.name,
        found=stops,
        foreign=Foreign(obstacle=stops),
    )


def roll_back(found: Compared) -> str:
    """Return the advice to take other programs' commits back, with the statement that does it, where there is one."""
    return "roll the table back to what was published" + (f" by {found.undo}" if found.undo else "")


def _way_back(recorded: TableRef | None) -> str:
    if recorded is None or not recorded.metadata:
        return "roll it back"
    return f"let its pointer name {recorded.metadata} again"


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One version on the way from the recorded version to the one that the pointer names.

    :param operation: in the format's words. :param marks: the commit that it carries; None for another program's.
    """

    version: int
    operation: str
    marks: Marks | None


def compare_descendant(
    table: Table, pointed: Description, way: Sequence[Step], rows: Callable[[], Foreign]
) -> Compared:
    """Decide the status of a pointer whose version descends from the recorded one by *way*, oldest first.

    :param rows: compares the rows; called only if all versions on the way are other programs'.
    """
    own = [step.marks for step in way if step.marks is not None and step.marks.domain == table.domain]
    if own:
        ahead = _compared(PointerStatus.AHEAD, pointed)
        return replace(ahead, csn=own[-1].csn, incarnation=own[-1].incarnation)
    if not way:
        return _compared(PointerStatus.CURRENT, pointed)
    foreign = rows()
    status = PointerStatus.COMPACTED if foreign.same_rows else PointerStatus.FOREIGN
    return replace(_compared(status, pointed), foreign=foreign)


def compare_unrelated(pointed: Description, recorded: Description, *, follows: bool) -> Compared:
    """Decide the status of a pointer whose version does not descend from the recorded one.

    :param follows: whether pointers move after the store's transaction, so that they may lag.
    """
    if follows and lags(pointed, recorded):
        return replace(_compared(PointerStatus.BEHIND, pointed), csn=recorded.csn)
    if pointed.marks is not None and pointed.descends_from(recorded) and pointed.csn > recorded.csn:
        return _compared(PointerStatus.AHEAD, pointed)
    obstacle = f"it does not come from version {recorded.version}"
    return replace(_compared(PointerStatus.FOREIGN, pointed), foreign=Foreign(obstacle=obstacle))


def overtaken(
    pointed: Description, recorded: Description, under: Marks | None, rows: Callable[[], Foreign]
) -> Compared:
    """Decide the status of a pointer that moved while the store recorded another commit on the same version.

    A compaction that a publish overtook adds no rows: the pointer is merely behind.

    :param under: the commit that the version below that compaction carries; None if there is no compaction.
    :param rows: compares that version's rows with those of the pointer's version.
    """
    compared = compare_unrelated(pointed, recorded, follows=True)
    earlier = under is not None and recorded.marks is not None and under.precedes(recorded.marks)
    if compared.status is PointerStatus.FOREIGN and earlier and rows().same_rows:
        return replace(_compared(PointerStatus.BEHIND, pointed), csn=recorded.csn)
    return compared


def refuse_head(publication: Publication, found: Compared) -> None:
    """Refuse a publication unless the head is its base, or has the same rows, or is adopted.

    :raises TablesAhead: the head carries a CSN that the store has not issued before this publication's.
    :raises ForeignCommit: any other difference.
    """
    if (
        found.status in (PointerStatus.CURRENT, PointerStatus.COMPACTED)
        or found.version == publication.adopts
    ):
        return
    table = publication.table
    if found.status is PointerStatus.AHEAD or found.csn >= publication.csn:
        raise TablesAhead(
            f"table {table.name!r} was published with CSN {found.csn}, and the store's last commit is "
            f"{publication.csn - 1}: the store was restored from a backup, or another publish was faster.",
            next_step="read the store again; if its head stands still, restore the tables to it first.",
            table=table.name,
            expected=publication.csn - 1,
            found_csn=found.csn,
            incarnation=found.incarnation,
        )
    raise foreign_commit(table, publication.base, found)


def _compared(status: PointerStatus, pointed: Description) -> Compared:
    return Compared(
        status=status,
        pointer=pointed.uri,
        version=pointed.version,
        csn=pointed.csn,
        incarnation="" if pointed.marks is None else pointed.marks.incarnation,
    )
