"""Inheritance of roots: a job that takes tables over inherits what their epochs have read (R7, I11). Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from airflow_provider.domain.registration import MOST_LEFT_ROOTS, JobRecord


def inheriting(record: JobRecord, others: Sequence[JobRecord]) -> JobRecord:
    """Return *record* with the roots and predecessors of *others*, the jobs whose tables it takes over."""
    if not others:
        return record
    named = {root.name for root in record.roots}
    roots = {
        root.name: root
        for job in (record, *others)
        for root in (*job.left_roots, *job.roots)
        if root.name not in named
    }
    names = [
        name for job in (record, *others) for name in (*job.past_roots, *(root.name for root in job.roots))
    ]
    before = dict.fromkeys([*record.predecessors, *(name for job in others for name in job.writers)])
    return replace(
        record,
        left_roots=tuple(roots.values())[:MOST_LEFT_ROOTS],
        past_roots=tuple(name for name in dict.fromkeys(names) if name not in named),
        predecessors=tuple(name for name in before if name != record.name),
    )
