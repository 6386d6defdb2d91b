"""Inputs and tables that a cut or an epoch waits for."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from airflow_provider.domain.identifiers import TableName

UNWRITTEN = "no job that writes it has run"
"""Reason for which a table without a writer is missing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Staleness:
    """The age of a table in a cut, and its two causes.

    :param wall_clock: time from the table's barrier in the cut to the store's now.
    :param local: time by which the table's own job is behind its calendar.
    :param global_: time by which the table is ahead of its barrier in the cut: other tables hold the cut back.
    """

    wall_clock: timedelta
    local: timedelta
    global_: timedelta

    def __str__(self) -> str:
        return f"wall clock lag {self.wall_clock}, local {self.local}, global {self.global_}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Missing:
    """A table, a source or another epoch that is waited for, and the reason.

    :param name: name of the table or the source.
    :param reason: why it is not ready, as the message says it.
    :param wanted: barrier that it has to reach; None where there is none yet.
    :param watermark: barrier that the table has reached; None for none, and for all but tables.
    :param staleness: age of the table, if that is the reason.
    :param participants: numbers of the participants that have not written the table, if that is the reason.
    :param way_out: the operator's next step, where waiting does not help; otherwise empty.
    :param comes: runs of the table's job will compute it, as long as the job declares the table.
    """

    name: str
    reason: str
    wanted: datetime | None = None
    watermark: datetime | None = None
    staleness: Staleness | None = None
    participants: tuple[int, ...] = ()
    way_out: str = ""
    comes: bool = False

    @property
    def table(self) -> TableName:
        """The name, for what is a table."""
        return TableName(self.name)

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"
