"""What a job takes over with the tables of others: which roots their epochs have read (R7, I11). Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from airflow_provider.domain.registration import MOST_LEFT_ROOTS, JobRecord


def inheriting(record: JobRecord, others: Sequence[JobRecord]) -> JobRecord:
    """Return *record* with what *others*, whose tables the job takes over, have read and are known to have left."""
    if not others:
        return record
    named = {root.name for root in record.roots}
    roots = {
        root.name: root
        for one in (record, *others)
        for root in (*one.left_roots, *one.roots)
        if root.name not in named
    }
    names = [
        name for one in (record, *others) for name in (*one.past_roots, *(root.name for root in one.roots))
    ]
    before = dict.fromkeys([*record.predecessors, *(name for one in others for name in one.writers)])
    return replace(
        record,
        left_roots=tuple(roots.values())[:MOST_LEFT_ROOTS],
        past_roots=tuple(name for name in dict.fromkeys(names) if name not in named),
        predecessors=tuple(name for name in before if name != record.name),
    )
