"""The page's answer on one epoch as plain values, without the parts that the user may not read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from airflow_provider.coordination.upkeep.epoch_view import ShownAttempt, ShownEpoch, ShownSlice
from airflow_provider.coordination.upkeep.explain import Explanation
from airflow_provider.domain.checks import Finding
from airflow_provider.domain.epoch import AttemptEvent, Provenance
from airflow_provider.domain.errors import UnknownName
from airflow_provider.domain.identifiers import RestatementId
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.lease import Lease
from airflow_provider.domain.records import Stamped
from airflow_provider.domain.restatement import lease_of_restatement
from airflow_provider.domain.source_bounds import SourceBounds
from airflow_provider.plugins.grid.answers import Access, moment_answer, owner_answer

_FILES = 5
"""Number of a source's files that are named."""
_LEASES = 20


def epoch_answer(
    found: Explanation, access: Access, shown: ShownEpoch | None = None, leases: Iterable[Lease] = ()
) -> dict[str, Any]:
    """Return one epoch with what the user may read of it.

    :param shown: all that the store has of it; None if it has not begun. :param leases: that hold its rows.
    :raises UnknownName: the user may read none of the DAGs that worked on it; the same error as for an unknown epoch.
    """
    owners: set[str | None] = {entry.record.owner.dag_id for entry in found.log}
    if not any(access.may_read(owner) for owner in owners or {None}):
        raise unknown_epoch(found.job, found.interval)
    complete = all(access.may_read(owner) for owner in owners)
    return {
        "domain": found.domain,
        "job": found.job,
        "start": moment_answer(found.interval.start),
        "end": moment_answer(found.interval.end),
        "state": found.state.value,
        "revision": found.revision,
        "csn": found.csn,
        "summary": found.summary if complete else "",
        "waiting_for": list(found.waiting_for) if complete else [],
        "next_step": found.next_step,
        "findings": [_finding(finding) for finding in found.findings] if complete else [],
        "places": list(found.places) if complete else [],
        "inactive": moment_answer(found.inactive),
        "expired": list(found.expired),
        "retired": found.retired,
        "log": [_entry(entry) for entry in _readable(found.log, access)],
        **_shown(shown if complete else None, access),
        "leases": [_lease(lease, access) for lease in list(leases)[:_LEASES]] if complete else [],
    }


def unknown_epoch(job: str, interval: Interval) -> UnknownName:
    """Return the error for an epoch that does not exist, and for one that the user may not see."""
    return UnknownName(
        f"no epoch {interval} of job {job!r} is known to you.",
        next_step="see the tables and jobs that the page shows you; ask for read access to the DAG that computes it.",
    )


def reader_of_lease(lease: Lease) -> str:
    """Return the DAG that reads by *lease*, or the name of a program in its place: its owner up to the first slash."""
    return lease.owner.partition("/")[0]


def holds_former_rows(lease: Lease) -> bool:
    """Return whether *lease* is a published restatement's, which its revert needs."""
    name = lease.owner.removeprefix("restatement ")
    return name != lease.owner and lease.id == lease_of_restatement(RestatementId(name))


def holds(lease: Lease, slices: Sequence[ShownSlice], interval: Interval) -> bool:
    """Return whether *lease* holds a state with rows of the epoch."""
    states = (lease.cut.states.get(each.table) for each in slices)
    return any(state is not None and state.has(interval.end) for state in states)


def _shown(shown: ShownEpoch | None, access: Access) -> dict[str, Any]:
    """Return inputs, checks, slices and attempts; nothing of an epoch that has not begun."""
    inputs: Sequence[Provenance] = shown.inputs if shown else ()
    sources: Sequence[SourceBounds] = shown.sources if shown else ()
    attempts: Sequence[ShownAttempt] = shown.attempts if shown else ()
    return {
        "inputs": [_input(read) for read in inputs],
        "sources": [_source(bounds) for bounds in sources],
        "checks": list(shown.checks) if shown else [],
        "slices": [_slice(each) for each in (shown.slices if shown else ())],
        "attempts": [_attempt(each) for each in attempts if access.may_read(each.owner.dag_id)],
    }


def _input(read: Provenance) -> dict[str, Any]:
    return {
        "table": read.table,
        "kind": read.kind.value,
        "from": moment_answer(read.low),
        "to": moment_answer(read.high),
        "csn": read.csn,
        "version": None if read.ref is None else str(read.ref.version),
    }


def _source(bounds: SourceBounds) -> dict[str, Any]:
    return {
        "source": bounds.source,
        "revision": bounds.revision,
        "bounds": "" if bounds.span is None else str(bounds.span),
        "files": len(bounds.files),
        "named": [file.uri for file in bounds.files[:_FILES]],
    }


def _slice(found: ShownSlice) -> dict[str, Any]:
    return {
        "table": found.table,
        "job": found.job,
        "revision": found.revision,
        "csn": found.csn,
        "at": moment_answer(found.at),
        "rows": found.rows,
        "files": found.files,
        "size_bytes": found.size_bytes,
    }


def _attempt(found: ShownAttempt) -> dict[str, Any]:
    return {
        "token": found.token,
        "owner": owner_answer(found.owner),
        "state": found.state.value,
        "begun": moment_answer(found.begun),
        "ended": moment_answer(found.ended),
        "silent": found.is_silent,
        "staged": found.is_staged,
        "findings": [_finding(finding) for finding in found.findings],
    }


def _lease(lease: Lease, access: Access) -> dict[str, Any]:
    """Return a lease; its name and owner only to a user who may read the DAG that has taken it."""
    reader = reader_of_lease(lease)
    is_readable = access.may_read(reader)
    return {
        "name": lease.id if is_readable else "",
        "owner": lease.owner if is_readable else "",
        "until": moment_answer(lease.until),
        "barrier": moment_answer(lease.cut.barrier),
        "csn": lease.cut.csn,
        "may_release": is_readable and access.may_change_runs(reader) and not holds_former_rows(lease),
    }


def _readable(log: Iterable[Stamped[AttemptEvent]], access: Access) -> Iterable[Stamped[AttemptEvent]]:
    return (entry for entry in log if access.may_read(entry.record.owner.dag_id))


def _entry(stamped: Stamped[AttemptEvent]) -> dict[str, Any]:
    barrier = stamped.record
    output = barrier.committable
    return {
        "at": moment_answer(stamped.at),
        "state": barrier.state.value,
        "sink": barrier.sink,
        "token": barrier.token,
        "participant": barrier.participant,
        "owner": owner_answer(barrier.owner),
        "note": barrier.note,
        "rows": None if output is None else output.rows,
        "files": None if output is None else output.files,
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {"check": finding.check, "figure": finding.figure, "sample": list(finding.sample)}
