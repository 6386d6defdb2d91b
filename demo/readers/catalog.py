"""The reader by the REST catalog of Airflow's API server: pyiceberg, which knows nothing of this package.

Each read is a session of its own, whose address says which cut it is to be: docs/how-to/engines.md.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import RESTError, ServiceUnavailableError

from demo.airflow_rest import AirflowRest
from demo.measures import COLUMNS, measure
from demo.readers.epochs import DAILY_TABLES, DOMAIN, MOST_BEHIND, AdHocReader
from demo.readers.reading import ReaderSettings, ReadLog, Seen, compare, read_until_told
from demo.totals import TABLES, SourceTotals

if TYPE_CHECKING:
    from pyiceberg.table import Table

HELD_FOR = "2m"
"""Longer than a read takes; a user may hold a hundred cuts at once, and each read may find another one."""
NOT_READY = "NotReady"
NOTHING_YET = (NOT_READY, "NoSuchNamespaceException", "NoSuchTableException")
"""Types of the answers while there is no cut: the last two before the first job has run."""


class CutsByAddress:
    """Reads of New York's tables, each at the cut of an address.

    :param uri: of the catalog. :param token: that lets its reader in.
    :param storage: properties by which pyiceberg opens files: the catalog gives no rights to them.
    """

    def __init__(
        self, totals: SourceTotals, *, uri: str, token: str, storage: Mapping[str, str] | None = None
    ) -> None:
        self._totals = totals
        self._properties = {"type": "rest", "uri": uri, "token": token, **(storage or {})}

    def read_day(self, at: datetime | None = None) -> Seen:
        """Read the tables that have a barrier each day, all at one, and compare them with the source there.

        :param at: the greatest barrier wanted; None for the newest.
        """
        return self._seen(DAILY_TABLES, **({} if at is None else {"at": at.isoformat()}))

    def read_all(self) -> Seen:
        """Read all tables at the newest day; full ones may stay behind it, each is judged where it says it stands."""
        return self._seen(list(TABLES), max_lag=f"{MOST_BEHIND.days}d")

    def _seen(self, tables: Sequence[str], **options: str) -> Seen:
        wanted = {"tables": ",".join(tables), "ttl": HELD_FOR, **options}
        address = f"{DOMAIN}?" + "&".join(f"{name}={value}" for name, value in wanted.items())
        cut = load_catalog("cut", **self._properties, warehouse=address)
        said = cut.load_namespace_properties(DOMAIN)
        barrier = _barrier(said)
        opened = {table: cut.load_table((DOMAIN, table)) for table in tables}
        behind = {name: barrier - _barrier(table.properties) for name, table in opened.items()}
        found = {name: measure(name, _rows(table, name)) for name, table in opened.items()}
        return Seen(
            barrier=barrier,
            tables=len(found),
            csn=int(said["epochs.csn"]),
            wrong=compare(found, self._totals, barrier, behind=behind if "max_lag" in options else None),
        )


def is_early(error: Exception) -> bool:
    """Return whether the catalog answered that there is no such cut yet."""
    return isinstance(error, RESTError) and str(error).partition(":")[0] in NOTHING_YET


def is_retryable(error: Exception) -> bool:
    """Return whether to try the read again: the answer says so, or none came. A missing file stays missing."""
    if isinstance(error, RESTError):
        return isinstance(error, ServiceUnavailableError) or str(error).startswith(f"{NOT_READY}:")
    return isinstance(error, OSError) and not isinstance(error, FileNotFoundError)


def read_all_the_time(*, reader: str, period_s: float) -> None:
    """Read until SIGTERM, by turns as the ad-hoc reader does, whose family it belongs to."""
    settings = ReaderSettings.from_environment("epochs")
    airflow = AirflowRest(os.environ["AIRFLOW__API__BASE_URL"])
    cuts = CutsByAddress(
        SourceTotals.load(settings.totals),
        uri=os.environ["NYC_CATALOG"],
        token=airflow.token(),
        storage=_storage(),
    )
    airflow.close()
    read_until_told(
        ReadLog(settings, family="epochs", reader=reader),
        AdHocReader(
            cuts.read_day, cuts.read_all, is_early=is_early, ends=settings.days.ends, name=reader
        ).read,
        is_early=is_early,
        is_retryable=is_retryable,
        period_s=period_s,
    )


def _barrier(properties: Mapping[str, str]) -> datetime:
    return datetime.fromisoformat(properties["epochs.barrier"])


def _rows(table: Table, name: str) -> pa.Table:
    return table.scan(selected_fields=tuple(COLUMNS[name])).to_arrow()


def _storage() -> dict[str, str]:
    """Give pyiceberg what it does not look for itself; keys are in the environment."""
    known = {"s3.endpoint": "AWS_ENDPOINT_URL", "s3.region": "AWS_REGION"}
    return {name: os.environ[variable] for name, variable in known.items() if variable in os.environ}
