"""Route of the grid: the tables of a domain, and the epochs of those that are on the screen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import APIRouter, Query

from airflow_provider.coordination.upkeep.grid import Grid, grid, time_before
from airflow_provider.coordination.upkeep.grid_frame import Frame, FrameRow, frame
from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.identifiers import domain_name
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import topology_key
from airflow_provider.plugins.access import DagAccess
from airflow_provider.plugins.grid.answers import (
    Restated,
    frame_answer,
    grid_answer,
    is_visible,
    moment_answer,
)
from airflow_provider.plugins.grid.questions import (
    ConnectionId,
    Name,
    Tag,
    Time,
    Words,
    moment_of,
    reader_of,
    recent,
)
from airflow_provider.plugins.grid.restatements import restated

MAX_HOURS = 24 * 366 * 5
_MOST_ROWS, _MOST_CELLS, _FEWEST = 100, 12_000, 24
"""Maximum number of tables and of cells in one answer, and the minimum of a table: half a second of work."""

router = APIRouter()


@dataclass(frozen=True, kw_only=True, slots=True)
class Window:
    """Part of the grid that the page asks for.

    :param shown: range of the whole axis. :param part: range of the epochs in the answer.
    """

    shown: Interval
    part: Interval
    rows: tuple[FrameRow, ...]

    @property
    def max_cells(self) -> int:
        """Maximum number of epochs of a table."""
        return max(_MOST_CELLS // max(1, len(self.rows)), _FEWEST)


@router.get("/api/grid")
def grid_of(
    *,
    user: GetUserDep,
    domain: Name = "default",
    conn_id: ConnectionId = None,
    end: Time = None,
    hours: Annotated[int, Query(ge=1, le=MAX_HOURS)] = 168,
    words: Words = "",
    offset: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
    limit: Annotated[int, Query(ge=1, le=_MOST_ROWS)] = 50,
    start_at: Annotated[str | None, Query(alias="from", max_length=64)] = None,
    end_at: Annotated[str | None, Query(alias="to", max_length=64)] = None,
    cells: Annotated[int, Query(ge=1, le=2_000)] = 240,
    since: Tag = "",
) -> dict[str, Any]:
    """Return tables and their epochs in the *hours* before *end*, as far as the user may read the DAGs.

    :param words: only tables whose name, or whose job's name, contains one of these words.
    :param offset: number of the first table in the answer. :param limit: maximum number of tables.
    :param start_at: ``from``: start of the epochs in the answer; by default as many of the shortest as *cells*.
    :param end_at: ``to``: their end; by default the end of the range.
    :param since: ``tag`` of the answer that the page has; an answer with the same tag is not sent again.
    """
    moment = moment_of(end, "end")
    part = moment_of(start_at, "from"), moment_of(end_at, "to")
    access = DagAccess(user)
    with reader_of(conn_id, user) as reader:
        name = domain_name(domain)
        reading = reader.read(name, [topology_key(name)])
        head, topology = reading.head, reading.get(topology_key(name))
        # A restatement that opens or ends moves no CSN, and writes the topology.
        at = (conn_id or "", name, head.incarnation, topology.version if topology else 0)
        whole: Frame = recent.answer(("frame", *at), head.csn, lambda: frame(reader, name)).value
        seen = whole.where(lambda row: is_visible(row, access))
        wanted = seen.where(_named(words))
        last = wanted.end if moment is None else moment
        shown = wanted.within(time_before(last, timedelta(hours=hours)), last)
        window = _window(wanted, shown, part, cells=cells, rows=slice(offset, offset + limit))

        def work() -> tuple[Grid, Restated]:
            found = grid(
                reader,
                name,
                start=window.part.start,
                end=window.part.end,
                tables=[row.table for row in window.rows],
                jobs=[row.job for row in window.rows],
                max_cells=window.max_cells,
            )
            return found, restated(reader, found)

        question = ("grid", *at, tuple(row.table for row in window.rows), window.part)
        found = recent.answer(question, head.csn, work) if window.rows else None
    tag = found.tag if found else ""
    if since and since == tag:
        return {"unchanged": True, "tag": tag}
    told: Mapping[str, Any] = (
        grid_answer(*_value(found), access) if found else {"rows": [], "left_out": False}
    )
    return {
        **frame_answer(whole, seen, access),
        **told,
        "start": moment_answer(window.shown.start),
        "end": moment_answer(window.shown.end),
        "from": moment_answer(window.part.start),
        "to": moment_answer(window.part.end),
        "shortest_s": wanted.shortest.total_seconds(),
        "total": len(wanted.rows),
        "offset": offset,
        "tag": tag,
    }


def _value(found: Any) -> tuple[Grid, Restated]:
    value: tuple[Grid, Restated] = found.value
    return value


def _named(words: str) -> Any:
    wanted = words.lower().replace(",", " ").split()
    return lambda row: not wanted or any(word in f"{row.table} {row.job}".lower() for word in wanted)


def _window(
    found: Frame,
    shown: Interval,
    part: tuple[datetime | None, datetime | None],
    *,
    cells: int,
    rows: slice,
) -> Window:
    """Return the part of the grid that is asked for, within the range *shown*.

    :raises InvalidInput: a part that ends before it begins.
    """
    start, stop = part
    if start is not None and stop is not None and stop <= start:
        raise InvalidInput(
            field="to", value=stop.isoformat(), expected=f"a time after from, which is {start.isoformat()}"
        )
    least = min(found.shortest, shown.end - shown.start)
    stop = shown.end if stop is None else min(max(stop, shown.start + least), shown.end)
    if start is None:
        start = stop - min(cells * found.shortest, stop - shown.start)
    start = min(max(start, shown.start), stop - least)
    return Window(shown=shown, part=Interval(start, stop), rows=found.rows[rows])
