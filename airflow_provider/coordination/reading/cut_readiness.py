"""Waiting for a cut with the options that readers have: alignment, staleness, all tables of the domain."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from airflow_provider.coordination.reading.resolve import Resolved, TableVersions, names_of, resolved
from airflow_provider.coordination.reading.wait import Readiness, readiness, without_owner
from airflow_provider.domain.cut import lagging
from airflow_provider.domain.cut_request import ROLLING, CutRequest
from airflow_provider.domain.errors import NotReady
from airflow_provider.domain.identifiers import DomainName, domain_name
from airflow_provider.domain.interval import as_utc
from airflow_provider.domain.missing import Missing
from airflow_provider.domain.read_options import Consistency
from airflow_provider.domain.records import table_key
from airflow_provider.domain.topology import Table
from airflow_provider.stores.base import MetadataReader


def cut_readiness(
    reader: MetadataReader,
    domain: str,
    tables: Iterable[str | Table],
    barrier: datetime,
    request: CutRequest = ROLLING,
) -> Readiness:
    """Return whether a cut of *tables* at *barrier* can be had as *request* says; without retries.

    With ``max_staleness`` a later barrier serves, too: the newest cut at *barrier* or after it that is young enough.

    :raises Unavailable: a table's state at the barrier has expired (R24).
    """
    name, names, barrier = domain_name(domain), names_of(tables), as_utc(barrier, "barrier")
    if request == ROLLING:
        return readiness(reader, name, names, barrier)
    keys = {table: table_key(name, table) for table in names}
    reading = reader.read(name, list(keys.values()))
    if any(key not in reading.records for key in keys.values()):
        lags = tuple(without_owner(table, barrier) for table, key in keys.items() if reading.get(key) is None)
        return Readiness(barrier=barrier, csn=reading.head.csn, missing=lags)
    versions = TableVersions(reader)
    newest = request.max_staleness is not None
    try:
        answer = resolved(versions, name, names, replace(request, at=None if newest else barrier))
    except NotReady as error:
        lags = error.missing or (Missing(name=names[0], wanted=barrier, reason=error.message),)
        return Readiness(barrier=barrier, csn=reading.head.csn, missing=lags)
    at, csn = answer.aligned.barrier, answer.reading.head.csn
    if at == barrier or (newest and at > barrier):
        return Readiness(barrier=at, csn=csn, missing=())
    return Readiness(barrier=barrier, csn=csn, missing=_lags(name, answer.found, barrier, request))


def _lags(domain: DomainName, found: Resolved, barrier: datetime, request: CutRequest) -> tuple[Missing, ...]:
    """Return what keeps the cut before *barrier*: tables that lag more than they may, else others of the domain."""
    lags = lagging(found, barrier)
    if request.max_lag is not None:
        allowed = barrier - request.max_lag
        late = (lag for lag in lags if not _may_lag(found, lag, allowed))
        lags = tuple(late) or lags
    if lags or request.consistency is Consistency.ROLLING:
        return lags or (Missing(name=min(found), wanted=barrier, reason="the tables do not meet there"),)
    reason = (
        "not all of its tables have published it (consistency='altogether'); `airflow epochs lag` names them"
    )
    return (Missing(name=f"domain {domain}", wanted=barrier, reason=reason),)


def _may_lag(found: Resolved, lag: Missing, allowed: datetime) -> bool:
    record, version = found[lag.table]
    return record.kind.may_lag and version.watermark is not None and version.watermark >= allowed
