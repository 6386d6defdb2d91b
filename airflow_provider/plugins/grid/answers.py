"""The page's answers as plain values, without the parts that the user may not read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Protocol

from airflow_provider.coordination.upkeep.explain import Explanation
from airflow_provider.coordination.upkeep.grid import Cell, Grid, Row
from airflow_provider.domain.checks import Finding
from airflow_provider.domain.epoch import AttemptEvent, EpochState
from airflow_provider.domain.errors import UnknownName
from airflow_provider.domain.identifiers import DomainName, JobName, RestatementId
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.records import Stamped


class Access(Protocol):
    """Permissions of the user; see :mod:`airflow_provider.plugins.access`."""

    def may_read(self, dag_id: str | None) -> bool: ...

    def may_change_runs(self, dag_id: str | None) -> bool: ...


Restated = Mapping[tuple[JobName, Interval], RestatementId]
"""Members of open restatements, with the name of the restatement that computes them again."""


def domains_answer(domains: Mapping[DomainName, Callable[[], Collection[str]]], access: Access) -> list[str]:
    """Return the domains in which the user may read a DAG that worked on the latest epoch of a job.

    A user who may read all DAGs gets all domains.

    :param domains: each domain with a function that returns the ids of those DAGs.
    """
    every = access.may_read(None)
    return [name for name, dags in domains.items() if every or any(map(access.may_read, dags()))]


def grid_answer(found: Grid, access: Access, restated: Restated | None = None) -> dict[str, Any]:
    """Return the grid; a table appears if the user may read a DAG that computed an epoch of it.

    Epochs of other DAGs are shown as empty. A table without a computed epoch in the range is shown to users who may
    read all DAGs. A domain without a table for the user looks like an unknown domain.

    :param restated: the epochs that carry the name of a restatement.
    """
    rows = [_row(row, access, restated or {}) for row in found.rows if _visible(row, access)]
    if not rows and not access.may_read(
        None
    ):  # the answer for an unknown domain: it tells not even that it exists
        found = replace(
            found,
            csn=0,
            shown=Interval(found.now - (found.shown.end - found.shown.start), found.now),
            left_out=False,
            more=False,
        )
    return {
        "domain": found.domain,
        "csn": found.csn,
        "now": moment_answer(found.now),
        "start": moment_answer(found.shown.start),
        "end": moment_answer(found.shown.end),
        "left_out": found.left_out,
        "more": found.more,
        "rows": rows,
    }


def epoch_answer(found: Explanation, access: Access) -> dict[str, Any]:
    """Return one epoch with the entries of its log that the user may read.

    :raises UnknownName: the user may read none of the DAGs that worked on it; the same error as for an unknown epoch.
    """
    owners: set[str | None] = {entry.record.owner.dag_id for entry in found.log}
    if not any(access.may_read(owner) for owner in owners or {None}):
        raise unknown_epoch(found.job, found.interval)
    complete = all(access.may_read(owner) for owner in owners)
    return {
        "domain": found.domain,
        "job": found.job,
        "start": moment_answer(found.interval.start),
        "end": moment_answer(found.interval.end),
        "state": found.state.value,
        "revision": found.revision,
        "csn": found.csn,
        "summary": found.summary if complete else "",
        "waiting_for": list(found.waiting_for) if complete else [],
        "next_step": found.next_step,
        "findings": [_finding(finding) for finding in found.findings] if complete else [],
        "places": list(found.places) if complete else [],
        "inactive": moment_answer(found.inactive),
        "expired": list(found.expired),
        "retired": found.retired,
        "log": [_entry(entry) for entry in _readable(found.log, access)],
    }


def unknown_epoch(job: str, interval: Interval) -> UnknownName:
    """Return the error for an epoch that does not exist, and for one that the user may not see."""
    return UnknownName(
        f"no epoch {interval} of job {job!r} is known to you.",
        next_step="see the tables and jobs that the page shows you; ask for read access to the DAG that computes it.",
    )


def _visible(row: Row, access: Access) -> bool:
    owners: set[str | None] = {cell.owner.dag_id for cell in row.cells if cell.owner is not None}
    return any(access.may_read(owner) for owner in owners or {None})


def _row(row: Row, access: Access, restated: Restated) -> dict[str, Any]:
    return {
        "table": row.table.name,
        "kind": row.table.kind.value,
        "format": row.table.format,
        "job": row.job,
        "cadence": str(row.cadence),
        "watermark": moment_answer(row.watermark),
        "csn": row.csn,
        "inactive": moment_answer(row.inactive),
        "retired": row.retired,
        "cells": [_cell(cell, access, restated.get((row.job, cell.interval))) for cell in row.cells],
    }


def _cell(cell: Cell, access: Access, restatement: RestatementId | None) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "start": moment_answer(cell.interval.start),
        "end": moment_answer(cell.interval.end),
        "state": "",
    }
    if cell.state is EpochState.NOTHING or not access.may_read(cell.owner.dag_id if cell.owner else None):
        return answer
    answer |= {
        "state": cell.state.value,
        "revision": cell.revision,
        "sink": cell.sink.value,
        "silent": cell.silent,
        "expired": cell.expired,
        "owner": None if cell.owner is None else owner_answer(cell.owner),
    }
    if restatement is not None:
        answer["restatement"] = restatement
    if cell.committed is not None:
        done = cell.committed
        answer["committed"] = {
            "revision": done.revision,
            "csn": done.csn,
            "rows": done.rows,
            "files": done.files,
            "size_bytes": done.size_bytes,
            "at": moment_answer(done.at),
        }
    return answer


def _readable(log: Iterable[Stamped[AttemptEvent]], access: Access) -> Iterable[Stamped[AttemptEvent]]:
    return (entry for entry in log if access.may_read(entry.record.owner.dag_id))


def _entry(stamped: Stamped[AttemptEvent]) -> dict[str, Any]:
    barrier = stamped.record
    output = barrier.committable
    return {
        "at": moment_answer(stamped.at),
        "state": barrier.state.value,
        "sink": barrier.sink,
        "token": barrier.token,
        "participant": barrier.participant,
        "owner": owner_answer(barrier.owner),
        "note": barrier.note,
        "rows": None if output is None else output.rows,
        "files": None if output is None else output.files,
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {"check": finding.check, "figure": finding.figure, "sample": list(finding.sample)}


def owner_answer(owner: Owner) -> dict[str, Any]:
    """Return the task or program *owner*."""
    return {
        "dag_id": owner.dag_id,
        "run_id": owner.run_id,
        "generation": owner.generation,
        "try_number": owner.try_number,
    }


def moment_answer(moment: datetime | None) -> str | None:
    """Return *moment* in ISO format."""
    return None if moment is None else moment.isoformat()
