"""Asset events that no task sends: a command or the page has published a restatement, and tells Airflow's database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.assets.manager import asset_manager
from airflow.models.asset import AssetModel
from airflow.utils.retries import run_with_db_retries
from airflow.utils.session import create_session

from airflow_provider.domain.errors import Unavailable
from airflow_provider.domain.identifiers import DomainName, RestatementId
from airflow_provider.hooks.compat import asset_key

if TYPE_CHECKING:
    from airflow_provider.coordination.service import EpochService

_TRIES = 5
"""Tries while Airflow's database is locked, as Airflow's scheduler locks SQLite."""


def announce_restatement(
    service: EpochService, domain: DomainName, name: RestatementId, csn: int, *, conn_id: str | None = None
) -> int | None:
    """Send the events of the commit *csn* of restatement *name*, as :func:`restated_events`; return their number.

    A table that no DAG of this Airflow writes or follows has no asset there, and gets no event. A repetition sends them
    again: events are hints. Returns None where Airflow's database has no tables: nothing runs there.

    :param conn_id: connection of the domain, for the command that an error names; None for the default one.
    :raises Unavailable: Airflow's database does not take them; the commit stays.
    """
    from airflow_provider.coordination.restating.next_steps import Commands
    from airflow_provider.hooks.restated_assets import restated_events

    told = [
        (asset_key(asset.name, asset.uri), extra)
        for asset, extra in restated_events(service, domain, name, csn)
    ]
    sent: int | None = None
    try:
        for attempt in run_with_db_retries(_TRIES):
            with attempt, create_session() as session:
                connection = session.connection()
                if not connection.dialect.has_table(connection, AssetModel.__tablename__):
                    return None
                events = [
                    asset_manager.register_asset_change(asset=asset, extra=extra, session=session)
                    for asset, extra in told
                ]
                sent = sum(event is not None for event in events)
    except Exception as error:  # whatever its database has to say, the commit stays
        reason = str(error).partition("\n")[0]
        raise Unavailable(
            f"restatement {name!r} is published at CSN {csn}, and Airflow's database did not take its asset events: "
            f"{reason}",
            next_step=f"`{Commands(domain, conn_id)('publish', name)}` once it answers sends them, and changes no row; "
            "--no-events leaves them out.",
            found=reason,
        ) from error
    return sent
