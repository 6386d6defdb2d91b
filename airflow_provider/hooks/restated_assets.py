"""Asset events of a restatement: one for each table that its commit has changed (R28, R35)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset

from airflow_provider.domain.identifiers import DomainName, JobName, RestatementId
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import job_key
from airflow_provider.domain.watermark import merged
from airflow_provider.hooks.assets import asset_of, span_of
from airflow_provider.hooks.task_run import RESTATEMENT

if TYPE_CHECKING:
    from airflow_provider.coordination.service import EpochService


def restated_events(
    service: EpochService, domain: DomainName, name: RestatementId, csn: int
) -> list[tuple[Asset, dict[str, Any]]]:
    """Return the events of the commit *csn* of restatement *name*: assets with the extras of their events.

    An extra has ``domain``, ``table``, ``job``, ``csn``, ``restatement``, and as ``epochs`` the ranges of time that the
    commit has computed again, by time. A commit group has none: the tasks of its jobs send theirs.
    """
    from airflow_provider.coordination.commits.staged import restatement_of
    from airflow_provider.stores.base import commit_key

    if restatement_of(service.store, domain, name).record.is_group:
        return []
    commit = service.store.read(domain, [key := commit_key(domain, csn)]).of(key).record
    changed = {delta.table for delta in commit.tables}
    spans: dict[JobName, list[Interval]] = {}
    for member in commit.members:
        spans.setdefault(member.job, []).append(member.interval)
    jobs = service.store.read(domain, [job_key(domain, job) for job in spans])
    found = []
    for job, intervals in spans.items():
        known = jobs.get(job_key(domain, job))  # None: it was dropped since
        epochs = [span_of(interval) for interval in merged(intervals)]
        for table in known.record.outputs if known is not None else ():
            if table.name in changed:
                extra = {"domain": domain, "table": table.name, "job": job, "csn": csn, RESTATEMENT: name}
                found.append((asset_of(table), {**extra, "epochs": epochs}))
    return sorted(found, key=lambda event: event[0].name)
