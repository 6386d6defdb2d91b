"""The page's answers as plain values, without the parts that the user may not read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Any, Protocol

from airflow_provider.coordination.upkeep.grid import Cell, Grid, Row
from airflow_provider.coordination.upkeep.grid_frame import Frame, FrameRow
from airflow_provider.domain.epoch import EpochState
from airflow_provider.domain.identifiers import DomainName, JobName, RestatementId
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner


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


def is_visible(row: FrameRow, access: Access) -> bool:
    """Return whether the user may see the table of *row*: may read the DAG of its job's latest epoch, or all DAGs."""
    return access.may_read(None) or (row.dag is not None and access.may_read(row.dag))


def frame_answer(whole: Frame, seen: Frame, access: Access) -> dict[str, Any]:
    """Return the domain's head and the number of tables *seen* by the user.

    A domain without a table for the user looks like an unknown domain.
    """
    hidden = not seen.rows and not access.may_read(None)
    return {
        "domain": whole.domain,
        "csn": 0 if hidden else whole.csn,
        "now": moment_answer(whole.now),
        "tables": len(seen.rows),
    }


def grid_answer(found: Grid, restated: Restated, access: Access) -> dict[str, Any]:
    """Return the rows of tables that the user may see; epochs of other DAGs are shown as empty.

    :param restated: the epochs that carry the name of a restatement.
    """
    return {
        "csn": found.csn,
        "now": moment_answer(found.now),
        "left_out": found.left_out,
        "rows": [_row(row, access, restated) for row in found.rows],
    }


def _row(row: Row, access: Access, restated: Restated) -> dict[str, Any]:
    return {
        "table": row.table.name,
        "kind": row.table.kind.value,
        "format": row.table.format,
        "job": row.job,
        "cadence": str(row.cadence),
        "watermark": moment_answer(row.watermark),
        "csn": row.csn,
        "reaches": moment_answer(row.reaches),
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
