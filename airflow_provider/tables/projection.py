"""How far the catalog's pointer is from what the store recorded (R17).

Where a catalog lies outside of the store's database, the store's transaction is the commit and the pointer follows
it. So the pointer may lag, and it may be further than a record that was read a moment ago; anything else was done by
another program.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from airflow_provider.domain.errors import EpochError, ForeignCommit
from airflow_provider.domain.topology import EpochTable
from airflow_provider.domain.version import TableRef
from airflow_provider.tables.base import TableFormat
from airflow_provider.tables.checks import Marks, recreated

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
        same = (self.marks.domain, self.marks.incarnation) == (other.marks.domain, other.marks.incarnation)
        return same and self.marks.csn > other.marks.csn


def lags(pointed: Description, recorded: Description) -> bool:
    """Whether the catalog's pointer has not yet come to what the store recorded."""
    if pointed.table_uuid != recorded.table_uuid:
        # Put in place of a table that was published by others at the same moment.
        return pointed.version == 0 and recorded.table_uuid in pointed.replaces
    return pointed.version != recorded.version and recorded.descends_from(pointed)


def attempted(table_format: TableFormat, table: EpochTable, recorded: TableRef) -> bool:
    """Let the pointer of *table* follow; when it cannot now, the next touch does it. Return whether it is there."""
    try:
        table_format.project(table, recorded)
    except EpochError as error:
        log.warning(
            "The catalog's pointer of table %s stays behind for now: %s",
            table.name,
            error,
            extra={"domain": table.domain, "table": table.name},
        )
        return False
    return True


def refuse_strange(table: EpochTable, pointed: Description, recorded: Description, *, follows: bool) -> None:
    """Refuse a pointer that is neither at nor after what the store recorded, nor behind it where it *follows*.

    A column that another program changed is no commit: the version stays.

    :raises TableRecreated: it is another table. :raises ForeignCommit: anything else.
    """
    if pointed.uri == recorded.uri or (follows and lags(pointed, recorded)):
        return
    if pointed.table_uuid != recorded.table_uuid:
        raise recreated(table, recorded.table_uuid, pointed.table_uuid)
    if pointed.version == recorded.version:
        return
    further = pointed.descends_from(recorded) and pointed.marks is not None and pointed.csn > recorded.csn
    if not further:
        raise ForeignCommit(
            f"the catalog's pointer of table {table.name!r} of domain {table.domain!r} names version "
            f"{pointed.version}, which does not come from version {recorded.version} that the store published: "
            "another program moved it.",
            next_step=f"let it name {recorded.uri} again; cuts go on reading what was published.",
            table=table.name,
            expected=recorded.version,
            found=pointed.version,
        )
