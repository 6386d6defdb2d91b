"""Expired states, as readers find them and as retention writes them (R24).

The table's own record, which readers have anyway, tells whether a barrier may be expired at all. Only then do they
read pages: all candidates of all such tables in one call.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from airflow_provider.domain.defaults import Defaults
from airflow_provider.domain.epoch import Provenance
from airflow_provider.domain.expired import (
    ExpiredPage,
    expiring,
    grown_hull,
    page_items,
    range_in,
)
from airflow_provider.domain.identifiers import DomainName, TableName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import Key, Kind, Stamped, expired_key, retention_key
from airflow_provider.domain.retention import NOTHING_EXPIRED, RetentionRecord
from airflow_provider.domain.version import TableRecord, TableRef
from airflow_provider.stores.base import (
    Absent,
    Exists,
    MetadataReader,
    Put,
    Reading,
    unchanged,
)

SINCE_FORMAT = 2
"""Stores of an older format keep all ranges of a domain in its retention record."""
_MOST_REMEMBERED = 10_000


class ExpiredStates:
    """Expired ranges of a domain's tables.

    :param retention: the domain's record. :param hulls: per table the range that contains all its expired ranges; None
        without any. :param pages: those that were read already; further ones are added.
    """

    def __init__(
        self,
        reader: MetadataReader,
        domain: DomainName,
        retention: RetentionRecord,
        hulls: Mapping[TableName, Interval | None],
        pages: dict[Key[ExpiredPage], ExpiredPage] | None = None,
    ) -> None:
        self.retention = retention
        self.domain = domain
        self._reader = reader
        self._hulls = hulls
        self._pages = {} if pages is None else pages

    def load(self, barriers: Iterable[tuple[TableName, datetime]]) -> None:
        """Read the pages that :meth:`range_at` needs for *barriers* in one call."""
        self._load(key for table, barrier in barriers for key in self._keys(table, barrier))

    def _load(self, keys: Iterable[Key[ExpiredPage]]) -> None:
        needed = {key: None for key in keys if key not in self._pages}
        if needed:
            found = self._reader.read(self.domain, list(needed)).records
            self._pages |= {key: found[key].record if key in found else ExpiredPage() for key in needed}

    def load_inputs(
        self, inputs: Iterable[Provenance], tables: Mapping[TableName, Stamped[TableRecord] | None]
    ) -> None:
        """Read the pages for an epoch's inputs in one call; only full tables have expired rows."""
        self.load(
            (read.table, read.high)
            for read in inputs
            if (table := tables.get(read.table)) is not None and table.record.kind.loses_expired
        )

    def range_at(self, table: TableName, barrier: datetime) -> Interval | None:
        """Return the expired range that contains *barrier*, if any."""
        keys = self._keys(table, barrier)
        self._load(keys)
        recorded = self.retention.range_at(table, barrier)
        return recorded or range_in((self._pages[key] for key in keys), barrier)

    def expired_at(self, barriers: Mapping[TableName, datetime]) -> tuple[TableName, ...]:
        """Return the tables whose barrier in *barriers* is expired, sorted."""
        self.load(barriers.items())
        return tuple(sorted(table for table, barrier in barriers.items() if self.range_at(table, barrier)))

    def superseded(self, csn: int, ref: TableRef | None, newest: TableRef | None) -> bool:
        """Return whether the version *ref*, resolved at *csn*, cannot be claimed any more."""
        return self.retention.superseded(csn, ref, newest)

    def _keys(self, table: TableName, barrier: datetime) -> list[Key[ExpiredPage]]:
        hull = self._hulls.get(table)
        if hull is None or not hull.start < barrier <= hull.end:
            return []
        return [expired_key(self.domain, table, item) for item in page_items(barrier)]


def retention_of(domain: DomainName, reading: Reading) -> RetentionRecord:
    """Return the domain's retention record, as *reading* found it."""
    stamped = reading.get(retention_key(domain))
    return NOTHING_EXPIRED if stamped is None else stamped.record


def expired_states(
    reader: MetadataReader,
    domain: DomainName,
    reading: Reading,
    pages: dict[Key[ExpiredPage], ExpiredPage] | None = None,
) -> ExpiredStates:
    """Return the expired states of the tables whose records *reading* has, beside the domain's retention record.

    :param pages: those that were read before, at the version that the retention record has in *reading*.
    """
    tables = (stamped for key, stamped in reading.records.items() if key.kind is Kind.TABLE)
    hulls = {TableName(stamped.key.item): stamped.record.expired for stamped in tables}
    return ExpiredStates(reader, domain, retention_of(domain, reading), hulls, pages)


class RememberedPages:
    """Cache of pages of expired ranges; any expiry writes the retention record, and so empties it."""

    def __init__(self) -> None:
        self._kept: tuple[object, dict[Key[ExpiredPage], ExpiredPage]] = (None, {})

    def of(self, domain: DomainName, reading: Reading) -> dict[Key[ExpiredPage], ExpiredPage]:
        """Return the pages that were read at the retention record of *reading*; forget others."""
        stamped = reading.get(retention_key(domain))
        state = (domain, reading.head.incarnation, None if stamped is None else stamped.version)
        known, pages = self._kept
        if known != state or len(pages) > _MOST_REMEMBERED:
            self._kept = known, pages = state, {}
        return pages


def expired_pages(
    reader: MetadataReader,
    domain: DomainName,
    table: TableName,
    ranges: Iterable[Interval],
    defaults: Defaults,
) -> tuple[list[Exists | Absent], list[Put]]:
    """Return requirements and updates that expire *ranges* of *table*: pages, each read once."""
    readings: dict[str, Reading] = {}
    changed: dict[str, ExpiredPage] = {}

    def look(item: str) -> ExpiredPage | None:
        key = expired_key(domain, table, item)
        if item not in readings:
            readings[item] = reader.read(domain, [key])
        stamped = readings[item].get(key)
        return changed.get(item) or (None if stamped is None else stamped.record)

    for gone in ranges:
        changed |= expiring(look, gone, defaults.ranges_in_page)
    keys = {item: expired_key(domain, table, item) for item in (*readings, *changed)}
    return (
        [unchanged(reading, keys[item]) for item, reading in readings.items()],
        [Put(keys[item], page) for item, page in changed.items()],
    )


def hull_of(stamped: Stamped[TableRecord], gone: Interval) -> Interval | None:
    """Return the table's hull after *gone* is expired, if it has to grow; otherwise None."""
    record = stamped.record
    hull = record.expired
    if hull is not None and hull.start <= gone.start and gone.end <= hull.end:
        return None
    return grown_hull(hull, gone, record.cadence, record.progress)
