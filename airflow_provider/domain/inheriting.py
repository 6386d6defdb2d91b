"""Inheritance of sources: a job that takes tables over gets what their epochs have read (R7, I11). Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from airflow_provider.domain.registration import JobRecord


def inheriting(record: JobRecord, others: Sequence[JobRecord]) -> JobRecord:
    """Return *record* with the sources and predecessors of *others*, the jobs whose tables it takes over."""
    if not others:
        return record
    named = {source.name for source in record.sources}
    sources = {
        source.name: source
        for job in (record, *others)
        for source in (*job.left_sources, *job.sources)
        if source.name not in named
    }
    names = [
        name
        for job in (record, *others)
        for name in (*job.past_sources, *(source.name for source in job.sources))
    ]
    before = dict.fromkeys([*record.predecessors, *(name for job in others for name in job.writers)])
    return replace(
        record,
        left_sources=tuple(sources.values()),
        past_sources=tuple(name for name in dict.fromkeys(names) if name not in named),
        predecessors=tuple(name for name in before if name != record.name),
    )
