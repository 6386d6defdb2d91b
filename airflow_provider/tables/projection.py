"""How far the catalog's pointer is from what the store recorded (R17).

Where a catalog lies outside of the store's database, the store's transaction is the commit and the pointer follows
it. So the pointer may lag, and it may be further than a record that was read a moment ago; anything else was done by
another program.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from airflow_provider.domain.errors import EpochError, ForeignCommit
from airflow_provider.domain.topology import EpochTable
from airflow_provider.domain.version import TableRef
from airflow_provider.tables import checks
from airflow_provider.tables.base import Projected, Publication, TableFormat, TablesAhead
from airflow_provider.tables.checks import Marks
from airflow_provider.tables.standing import Compared, Foreign, Standing

log = logging.getLogger(__name__)

REMEMBERED = 25
"""So many earlier descriptions of a table are named by a description of it, and kept."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Description:
    """A table as one description of it (Iceberg: a metadata file) has it.

    :param version: 0 for a table that was never published. :param marks: what that version says about itself.
    :param earlier: URIs of the descriptions that it was made from, the last :data:`REMEMBERED` of them.
    :param replaces: identities of the unpublished tables that it was put in place of.
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
        """Whether it was made from *other*; beyond what is remembered, their CSNs decide."""
        if other.uri in self.earlier:
            return True
        if self.marks is None or len(self.earlier) < REMEMBERED:
            return False
        if other.marks is None:
            return other.version == 0
        return other.marks.precedes(self.marks)


def lags(pointed: Description, recorded: Description) -> bool:
    """Whether the catalog's pointer has not yet come to what the store recorded."""
    if pointed.table_uuid != recorded.table_uuid:
        # Put in place of a table that was published by others at the same moment.
        return pointed.version == 0 and recorded.table_uuid in pointed.replaces
    return pointed.version != recorded.version and recorded.descends_from(pointed)


def attempted(table_format: TableFormat, table: EpochTable, recorded: TableRef) -> Projected | None:
    """Let the pointer of *table* follow; None when it cannot now: the next touch does it."""
    try:
        return table_format.project(table, recorded)
    except EpochError as error:
        log.warning(
            "The catalog's pointer of table %s stays behind for now: %s",
            table.name,
            error,
            extra={"domain": table.domain, "table": table.name},
        )
        return None


def project(
    table_format: TableFormat, table: EpochTable, recorded: TableRef, move: Callable[[str], bool]
) -> Projected:
    """Let the pointer follow where it is behind; see :meth:`TableFormat.project`.

    :param move: lets the pointer name what was recorded if it still names what it is given; says whether it did.
    """
    while True:
        found = table_format.compare(table, recorded)
        if found.standing is Standing.FOREIGN:
            raise foreign_commit(table, recorded, found)
        if found.standing is not Standing.BEHIND:
            return Projected(moved=False, csn=found.csn, ahead=found.standing is Standing.AHEAD)
        if move(found.pointer):
            return Projected(moved=True, csn=found.csn)


def restore(
    table_format: TableFormat, table: EpochTable, recorded: TableRef, move: Callable[[str], bool]
) -> bool:
    """Make the catalog know the table again; see :meth:`TableFormat.restore`.

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


def foreign_commit(table: EpochTable, recorded: TableRef | None, found: Compared) -> ForeignCommit:
    """The error for a table whose rows another program changed."""
    expected = 0 if recorded is None else recorded.version
    place = (
        f"let its pointer name {recorded.metadata} again"
        if recorded and recorded.metadata
        else "roll it back"
    )
    return ForeignCommit(
        f"table {table.name!r} of domain {table.domain!r} is at version {found.version}, and the store published "
        f"{expected or 'nothing'}: another program wrote to it ({found.foreign}).",
        next_step=f"write to tables of a domain through epochs only; {place}, or let its job declare "
        "on_foreign_commit='adopt'. Cuts go on reading what was published.",
        table=table.name,
        expected=expected,
        found=found.version,
        foreign=found.foreign,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One version on the way from what the store recorded to what the pointer names.

    :param operation: as the format calls it. :param marks: what the version says about itself, None of a foreign one.
    """

    version: int
    operation: str
    marks: Marks | None


def judged(
    table: EpochTable, pointed: Description, way: Sequence[Step], rows: Callable[[], Foreign]
) -> Compared:
    """Where a pointer stands that *way* leads to, oldest first, from the recorded version.

    :param rows: compares the rows; asked only where no version on the way is the protocol's own.
    """
    own = [one.marks for one in way if one.marks is not None and one.marks.domain == table.domain]
    if own:
        found = _compared(Standing.AHEAD, pointed)
        return replace(found, csn=own[-1].csn, incarnation=own[-1].incarnation)
    if not way:
        return _compared(Standing.CURRENT, pointed)
    foreign = rows()
    standing = Standing.COMPACTED if foreign.same_rows else Standing.FOREIGN
    return replace(_compared(standing, pointed), foreign=foreign)


def strayed(pointed: Description, recorded: Description, *, follows: bool) -> Compared:
    """Where a pointer stands that no way leads to from the recorded version.

    :param follows: whether pointers are moved after the store's transaction, so that they may lag.
    """
    if follows and lags(pointed, recorded):
        return replace(_compared(Standing.BEHIND, pointed), csn=recorded.csn)
    if pointed.marks is not None and pointed.descends_from(recorded) and pointed.csn > recorded.csn:
        return _compared(Standing.AHEAD, pointed)
    obstacle = f"it does not come from version {recorded.version}"
    return replace(_compared(Standing.FOREIGN, pointed), foreign=Foreign(obstacle=obstacle))


def overtaken(
    pointed: Description, recorded: Description, under: Marks | None, rows: Callable[[], Foreign]
) -> Compared:
    """Where a pointer stands that was moved while the store recorded another commit on the same version.

    A compaction that a publish overtook has no rows of its own, so that the pointer is merely behind.

    :param under: what the newest version below that compaction says about itself; None when there is no compaction.
    :param rows: compares that version's rows with those that the pointer leads to.
    """
    found = strayed(pointed, recorded, follows=True)
    earlier = under is not None and recorded.marks is not None and under.precedes(recorded.marks)
    if found.standing is Standing.FOREIGN and earlier and rows().same_rows:
        return replace(_compared(Standing.BEHIND, pointed), csn=recorded.csn)
    return found


def refuse_head(publication: Publication, found: Compared) -> None:
    """Let a publication be made on its base, or on what has the same rows, only.

    :raises TablesAhead: the head is a commit that the store has not made before this one.
    :raises ForeignCommit: any other difference.
    """
    if found.standing in (Standing.CURRENT, Standing.COMPACTED) or found.version == publication.adopts:
        return
    table = publication.table
    if found.standing is Standing.AHEAD or found.csn >= publication.csn:
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


def _compared(standing: Standing, pointed: Description) -> Compared:
    return Compared(
        standing=standing,
        pointer=pointed.uri,
        version=pointed.version,
        csn=pointed.csn,
        incarnation="" if pointed.marks is None else pointed.marks.incarnation,
    )
