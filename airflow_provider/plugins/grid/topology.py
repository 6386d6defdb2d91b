"""Routes of the page on the topology of a domain, and on the delay of a table."""

from __future__ import annotations

from typing import Annotated, Any

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import APIRouter, Query

from airflow_provider.coordination.reading.delay import Delays, delays
from airflow_provider.coordination.reading.graph import Graph, Node, places
from airflow_provider.coordination.reading.lag import lag
from airflow_provider.domain.errors import UnknownName
from airflow_provider.domain.identifiers import TableName, domain_name, table_name
from airflow_provider.domain.lag import Holder, TableLag
from airflow_provider.domain.records import table_key
from airflow_provider.domain.registration import JobRecord
from airflow_provider.plugins.access import DagAccess
from airflow_provider.plugins.grid.answers import Access, moment_answer
from airflow_provider.plugins.grid.questions import (
    ConnectionId,
    Name,
    Tag,
    Time,
    moment_of,
    reader_of,
    recent,
    recent_dags,
)
from airflow_provider.plugins.grid.restatement_answers import visible_jobs
from airflow_provider.stores.base import MetadataReader, pages

router = APIRouter()
_MOST_NODES = 1_000


@router.get("/api/topology")
def topology_of(
    *, user: GetUserDep, domain: Name = "default", conn_id: ConnectionId = None, since: Tag = ""
) -> dict[str, Any]:
    """Return the jobs that the user may see, with what they read and write, and the places of a drawing.

    :param since: as in the grid.
    """
    access = DagAccess(user)
    with reader_of(conn_id, user) as reader:
        name = domain_name(domain)
        head = reader.read(name, []).head
        question = ("topology", conn_id or "", name, head.incarnation)
        found = recent.answer(
            question, head.csn, lambda: [stamped.record for stamped in pages(reader, name, JobRecord)]
        )
        jobs: list[JobRecord] = found.value
        seen = visible_jobs((job.name for job in jobs), lambda: recent_dags(conn_id, reader, name), access)
    if since == found.tag:
        return {"unchanged": True, "tag": found.tag}
    written = {table.name for job in jobs for table in job.outputs}
    drawn, more = _first([job for job in jobs if job.name in seen])
    graph = Graph(drawn)
    nodes, arrows = graph.nodes(), list(graph.arrows())
    at = places(nodes, arrows)
    return {
        "domain": name,
        "tag": found.tag,
        "jobs": len(seen),
        "more": more,
        "nodes": [_node(node, at[node.id], written) for node in nodes],
        "arrows": [
            {"start": arrow.start, "end": arrow.end, "label": arrow.label, "past": arrow.is_past}
            for arrow in arrows
        ],
    }


def _first(jobs: list[JobRecord]) -> tuple[list[JobRecord], bool]:
    """Return as many of *jobs* as a drawing can have, and whether there are more."""
    found, number = list[JobRecord](), 0
    for job in jobs:
        number += 1 + len(job.outputs) + len(job.edges) + len(job.sources)
        if number > _MOST_NODES and found:
            return found, True
        found.append(job)
    return found, False


def _node(node: Node, at: tuple[int, int], written: set[TableName]) -> dict[str, Any]:
    about = node.about
    if node.kind == "table" and not about:
        about = "of a job that is not shown" if TableName(node.name) in written else "no job writes it"
    return {
        "id": node.id,
        "kind": node.kind,
        "name": node.name,
        "about": about,
        "retired": node.retired,
        "column": at[0],
        "place": at[1],
    }


@router.get("/api/delay")
def delay_of(
    *,
    user: GetUserDep,
    table: Name,
    domain: Name = "default",
    conn_id: ConnectionId = None,
    end: Time = None,
    epochs: Annotated[int, Query(ge=1, le=1_000)] = 200,
) -> dict[str, Any]:
    """Return the delay of the latest *epochs* of *table* before *end*, from their ends to their first publishes.

    :raises UnknownName: no such table, or the user may not see it: the same error.
    """
    access, moment = DagAccess(user), moment_of(end, "end")
    with reader_of(conn_id, user) as reader:
        where, name = domain_name(domain), table_name(table)
        _refuse_hidden(reader, conn_id, where, name, access)
        found = delays(reader, where, name, end=moment, limit=epochs)
        (now,) = lag(reader, where, [name]).tables
    return {**_delays(found), "lag": _lag(now, access)}


def _refuse_hidden(
    reader: MetadataReader, conn_id: str | None, domain: Any, table: TableName, access: Access
) -> None:
    stamped = reader.read(domain, [table_key(domain, table)]).get(table_key(domain, table))
    seen = stamped and visible_jobs(
        [stamped.record.job], lambda: recent_dags(conn_id, reader, domain), access
    )
    if not seen:
        raise UnknownName.of_table(table, domain)


def _delays(found: Delays) -> dict[str, Any]:
    return {
        "table": found.table,
        "epochs": [
            {
                "end": moment_answer(epoch.end),
                "at": moment_answer(epoch.at),
                "delay_s": epoch.delay.total_seconds(),
            }
            for epoch in found.epochs
        ],
    }


def _lag(found: TableLag, access: Access) -> dict[str, Any]:
    spans = {
        "local": found.local,
        "global": found.global_,
        "wall_clock": found.wall_clock,
        "end_to_end": found.end_to_end,
    }
    holder = found.held_by
    return {
        "complete_to": moment_answer(found.watermark),
        "lacking": found.lacking,
        "ready": found.ready,
        **{f"{name}_s": None if span is None else span.total_seconds() for name, span in spans.items()},
        "held_by": None if holder is None or not _may_read(holder, access) else _holder(holder),
    }


def _may_read(holder: Holder, access: Access) -> bool:
    return access.may_read(None if holder.owner is None else holder.owner.dag_id)


def _holder(holder: Holder) -> dict[str, Any]:
    return {
        "job": holder.job,
        "start": moment_answer(holder.interval.start),
        "end": moment_answer(holder.interval.end),
        "state": holder.state.value,
        "because": holder.because,
    }
