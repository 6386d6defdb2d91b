"""Validation of the inputs of an attempt: they are still what it has read (R13).

The decision is :func:`~airflow_provider.domain.rewrites.invalidated`; here are the records and the error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from airflow_provider.domain.epoch import Attempt, Provenance
from airflow_provider.domain.errors import Conflict
from airflow_provider.domain.identifiers import DomainName, TableName
from airflow_provider.domain.records import Stamped, rewrite_log_key
from airflow_provider.domain.rewrites import invalidated
from airflow_provider.domain.version import Rewrite, RewriteLog
from airflow_provider.stores.base import Reading


def rewrite_logs(
    reading: Reading, domain: DomainName, inputs: Sequence[Provenance]
) -> dict[TableName, Stamped[RewriteLog]]:
    """Return the rewrite logs of the tables of *inputs*, which *reading* has."""
    return {read.table: reading.of(rewrite_log_key(domain, read.table)) for read in inputs}


def refuse_invalid(attempt: Attempt, inputs: Sequence[Provenance], reading: Reading) -> None:
    """Refuse *attempt* where its inputs are not what it has read.

    :raises Conflict: some of *inputs* were computed again or rolled back since, or their calendar has changed.
    """
    logs = rewrite_logs(reading, attempt.domain, inputs)
    broken = invalidated(inputs, logs, attempt.interval)
    if broken:
        raise Conflict(
            f"{attempt}: its inputs {_what(broken, logs)} meanwhile: "
            + "; ".join(
                f"{read.table} at CSN {change.csn}, read at CSN {read.csn}" for read, change in broken
            )
            + ".",
            next_step="begin again: a new attempt reads the new inputs.",
            tables=tuple(read.table for read, _ in broken),
        )


def _what(broken: Sequence[tuple[Provenance, Rewrite]], logs: Mapping[TableName, Stamped[RewriteLog]]) -> str:
    words = set()
    for read, change in broken:
        log = logs[read.table].record
        if change in log.calendars:
            words.add("got another calendar")
        else:
            words.add("were rolled back" if change in log.taken_back else "were computed again")
    return " or ".join(sorted(words))
