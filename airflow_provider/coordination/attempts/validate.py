"""Whether what an attempt has read is still what it was (R13)."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider.domain.epoch import Attempt, Provenance
from airflow_provider.domain.errors import Conflict
from airflow_provider.domain.publishing import invalidated
from airflow_provider.domain.records import rewrite_log_key
from airflow_provider.stores.base import Reading


def refuse_invalid(attempt: Attempt, inputs: Sequence[Provenance], reading: Reading) -> None:
    """:raises Conflict: some of *inputs* were computed again since they were read."""
    logs = {one.table: reading.records[rewrite_log_key(attempt.domain, one.table)] for one in inputs}
    broken = invalidated(inputs, logs)
    if broken:
        raise Conflict(
            f"{attempt}: its inputs were computed again meanwhile: "
            + "; ".join(f"{one.table} at CSN {rewrite.csn}, read at CSN {one.csn}" for one, rewrite in broken)
            + ".",
            next_step="begin again: a new attempt reads the new inputs.",
            inputs=tuple(one for one, _ in broken),
        )
