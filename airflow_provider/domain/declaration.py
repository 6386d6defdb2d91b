"""A job's declaration in fields of one type each, as its record keeps it and a program receives it."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Protocol

from airflow_provider.domain.checks import Check
from airflow_provider.domain.format_marks import formerly, since
from airflow_provider.domain.identifiers import JobName
from airflow_provider.domain.interval import Cadence
from airflow_provider.domain.topology import Determinism, Edge, Group, Job, OnRerun, Source, Table


class Declares(Protocol):
    """Fields of a declaration: a job, a job's record and a declaration have them."""

    @property
    def outputs(self) -> tuple[Table, ...]: ...

    @property
    def edges(self) -> tuple[Edge, ...]: ...

    @property
    def sources(self) -> tuple[Source, ...]: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class JobDeclaration:
    """An :class:`~airflow_provider.domain.topology.Job` whose inputs are sorted by their type."""

    name: JobName
    outputs: tuple[Table, ...]
    cadence: Cadence
    edges: tuple[Edge, ...]
    sources: tuple[Source, ...] = field(metadata=formerly("roots"))
    origin: datetime | None
    on_rerun: OnRerun
    determinism: Determinism
    checks: tuple[Check, ...] = ()
    inactive_after: int | None = field(default=None, metadata=formerly("lapses_after"))
    group: Group | None = field(default=None, metadata=since(2))

    @classmethod
    def of(cls, job: Declares) -> JobDeclaration:
        return cls(**{field.name: getattr(job, field.name) for field in fields(cls)})

    def job(self) -> Job:
        return Job(
            self.name,
            outputs=self.outputs,
            cadence=self.cadence,
            inputs=(*self.edges, *self.sources),
            origin=self.origin,
            on_rerun=self.on_rerun,
            determinism=self.determinism,
            checks=self.checks,
            inactive_after=self.inactive_after,
            group=self.group,
        )
