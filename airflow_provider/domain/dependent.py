"""Epochs that depend on others by what they have read (R8)."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider.domain.identifiers import JobName, TableName
from airflow_provider.domain.interval import Interval


@dataclass(frozen=True, kw_only=True, slots=True)
class Dependent:
    """A committed epoch that read time that would change, and the tables of which it read it.

    :param held: True if it read them by ``hold`` edges only.
    """

    job: JobName
    interval: Interval
    tables: tuple[TableName, ...]
    held: bool = False

    def __str__(self) -> str:
        edge = " by a hold edge" if self.held else ""
        return f"{self.job} {self.interval} read {', '.join(self.tables)}{edge}"
