"""Answer to a program that asks for an epoch which was computed already."""

from __future__ import annotations

from dataclasses import dataclass
from shlex import quote

from airflow_provider.coordination.service import EpochService
from airflow_provider.coordination.upkeep.unread import late_revisions
from airflow_provider.domain.epoch import AlreadyCommitted, AlreadyStaged
from airflow_provider.domain.errors import FinalError
from airflow_provider.domain.topology import Job, OnRerun
from airflow_provider.sources.readers import SourceReaders


@dataclass(kw_only=True, eq=False, repr=False)
class AlreadyComputed(FinalError):
    """The epoch is committed, and this is a retry of the run that committed it; or it is staged.

    :param committed: the commit, with its job, epoch, revision and CSN; or that a restatement has it staged.
    """

    committed: AlreadyCommitted | AlreadyStaged


def computed(committed: AlreadyCommitted | AlreadyStaged, job: Job, service: EpochService) -> AlreadyComputed:
    """Return the error for an epoch of *job* that is not to be computed, with the way to compute it anew."""
    if isinstance(committed, AlreadyStaged):
        return AlreadyComputed(
            f"{committed.job} {committed.interval} is staged for restatement {committed.restatement!r}.",
            next_step="to compute it anew within that, clear its task (elsewhere: a higher generation of its Owner).",
            committed=committed,
        )
    clear = (
        "clear its task (outside of Airflow: ask with another run_id, or a higher generation of the Owner)"
    )
    again = f"nothing is to be done; to compute it anew, {clear}."
    if job.on_rerun is OnRerun.KEEP:
        again = (
            "nothing is to be done; to compute it anew, "
            f'declare on_rerun="new_revision", since this job keeps what is committed, and {clear}.'
        )
    late = late_revisions(service.store, job, committed.interval, SourceReaders(service.connections))
    if late and job.on_rerun is OnRerun.KEEP:
        start, end = committed.interval.start.isoformat(), committed.interval.end.isoformat()
        again = (
            f"`airflow epochs bind {quote(late[0].source.name)} {start}/{end} --reason …`, then clear its task "
            "(outside of Airflow: run the program again; one that names its run_id needs another)."
        )
    told = "".join(f" Of source {found.source.name!r} {found}." for found in late)
    return AlreadyComputed(
        f"{committed.job} {committed.interval} is committed as revision {committed.revision} at CSN "
        f"{committed.csn}.{told}",
        next_step=again,
        committed=committed,
    )
