"""Tables as Airflow's assets, and intervals as the extras of their events have them."""

from __future__ import annotations

from airflow.sdk import Asset

from airflow_provider.domain.interval import Interval
from airflow_provider.domain.topology import Table


def asset_of(table: Table) -> Asset:
    """Return the asset of *table*, the same for its producer and all consumers."""
    return Asset(name=f"{table.domain}.{table.name}", uri=table.uri, group="epochs")


def span_of(interval: Interval) -> dict[str, str]:
    """Return *interval* as an event's extra has it."""
    return {"start": interval.start.isoformat(), "end": interval.end.isoformat()}
