"""Tables as Airflow's assets: one event per table and task, whose extra lists the published epochs.

Events are hints (R35): a consumer that an event wakes asks the store.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider.domain.interval import Interval
from airflow_provider.domain.topology import Job, Table
from airflow_provider.hooks.assets import asset_of as asset_of  # noqa: PLC0414  (users import it from here)
from airflow_provider.hooks.assets import span_of

if TYPE_CHECKING:
    from airflow_provider.domain.epoch import Published


def with_assets(job: Job, outlets: Any) -> list[Any]:
    """Return *outlets* and the assets of the job's tables, each once."""
    given = listed(outlets)
    return [*given, *(asset for asset in map(asset_of, job.outputs) if asset not in given)]


def listed(outlets: Any) -> list[Any]:
    """Return *outlets*, which Airflow takes as one asset, several or none, as a list."""
    return list(outlets) if isinstance(outlets, Sequence) else [] if outlets is None else [outlets]


def announce(
    context: Mapping[str, Any], job: Job, published: Iterable[Published], staged: Sequence[Interval] = ()
) -> None:
    """Fill in the extra of each table's event.

    ``csn`` is the newest commit; ``epochs`` lists the epochs that this task published, by time, each with ``start``,
    ``end``, ``revision``, ``csn`` and the table's ``version`` in its own format.

    :param staged: epochs that a group publishes later; their entries have ``start`` and ``end`` alone. The event has
        the other jobs of the group begin, and readers wait for the commit.
    """
    done = sorted(published, key=lambda epoch: epoch.interval)
    for table in job.outputs:
        context["outlet_events"][asset_of(table)].extra = {
            "domain": table.domain,
            "table": table.name,
            "job": job.name,
            "csn": max((epoch.csn for epoch in done), default=None),
            "epochs": [*(_entry(table, epoch) for epoch in done), *map(span_of, staged)],
        }


def withhold(task: Any, job: Job) -> None:
    """Have Airflow send no event of the job's tables at the success of *task*, which has published nothing.

    Airflow sends one for each outlet, with an extra or without; runs that it starts would have no epoch to compute.
    """
    own = [asset_of(table) for table in job.outputs]
    task.outlets = [outlet for outlet in task.outlets if outlet not in own]


def _entry(table: Table, published: Published) -> dict[str, Any]:
    ref = dict(published.tables).get(table.name)
    return {
        **span_of(published.interval),
        "revision": published.revision,
        "csn": published.csn,
        "version": None if ref is None else ref.version,
    }
