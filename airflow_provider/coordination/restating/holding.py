"""Decisions about committed epochs that ``hold`` edges hold: they join a restatement, or are released from it (R28)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from shlex import quote

from airflow_provider.coordination.restating.opening import told
from airflow_provider.coordination.restating.plan import Holding
from airflow_provider.domain.errors import InvalidInput, NotReady
from airflow_provider.domain.identifiers import JobName, RestatementId, TableName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.missing import Missing
from airflow_provider.domain.restatement import (
    Decision,
    HeldDecision,
    HeldEpochs,
    JobEpochs,
    RestatementRecord,
    epochs_of,
)
from airflow_provider.domain.watermark import merged

_LISTED = 5


def chosen(
    name: RestatementId,
    record: RestatementRecord,
    outside: Holding,
    jobs: Sequence[JobName],
    decision: Decision,
) -> list[JobEpochs]:
    """Return the epochs of *jobs* that a decision is about; none of a job about which it was made before.

    Those are the held ones. A job without any may join with those that were released.

    :raises InvalidInput: no job; or a restatement that a job's epochs do not hold.
    """
    if not jobs:
        raise InvalidInput(field="jobs", value=list(jobs), expected="names of jobs whose epochs hold it")
    found: list[JobEpochs] = []
    for job in dict.fromkeys(jobs):
        mine = _of(job, outside.held)
        if not mine and decision is Decision.JOINED:
            mine = _of(job, outside.released)
        made = any(before.job == job and before.decision is decision for before in record.decisions)
        if not mine and not made:
            holding = ", ".join(dict.fromkeys(held.job for held in outside.held)) or "none does"
            raise InvalidInput(
                field="job",
                value=job,
                expected=f"a job whose epochs hold restatement {name!r}: {holding}",
                next_step=f"`airflow epochs restate status {quote(name)}` lists them.",
            )
        found += [JobEpochs(job=job, intervals=mine)] if mine else []
    return found


def _of(job: JobName, found: Iterable[JobEpochs]) -> tuple[Interval, ...]:
    return tuple(sorted(interval for name, interval in epochs_of(found) if name == job))


def decisions(
    found: Iterable[JobEpochs], decision: Decision, *, by: str, reason: str, at: datetime
) -> list[HeldDecision]:
    """Return the entries of a restatement's record about the epochs *found*. :param at: the store's time."""
    return [
        HeldDecision(
            job=epochs.job,
            spans=merged(epochs.intervals),
            decision=decision,
            by=by.strip(),
            reason=reason.strip(),
            at=at,
        )
        for epochs in found
    ]


def refuse_kept_back(
    name: RestatementId,
    new: Sequence[tuple[JobName, Interval]],
    held: Sequence[HeldEpochs],
    closing_until: datetime | None,
    cause: Exception,
) -> None:
    """Refuse to publish a restatement that committed epochs keep back.

    :param new: those that are its members from now on. :param held: those that need a decision.
    :param closing_until: until then no further epoch begins to read what it replaces.
    :raises NotReady: naming both.
    """
    said, steps, missing = [], [], list[Missing]()
    if new:
        said.append(
            "epochs were committed since that have read what it replaces: "
            f"{told(f'{job} {interval}' for job, interval in new)}. They are its members now."
        )
        if closing_until is not None:
            said.append(f"No further epoch begins to read that before {closing_until.isoformat()}.")
        steps.append("compute them within it, too, then publish it.")
        missing += [_missing(job, interval, "not computed within it yet") for job, interval in new]
    if held:
        lines = (
            f"{epochs.job} {interval} has read {', '.join(epochs.tables)}"
            for epochs in held
            for interval in epochs.intervals
        )
        said.append(f"epochs hold it, which have read what it replaces by hold edges: {told(lines)}.")
        steps.append(ways_out(name, held))
        missing += [
            _missing(epochs.job, interval, f"held: it has read {', '.join(epochs.tables)}")
            for epochs in held
            for interval in epochs.intervals[:_LISTED]
        ]
    if said:
        raise NotReady(
            f"restatement {name!r}: {' '.join(said)}", next_step=" ".join(steps), missing=tuple(missing)
        ) from cause


def ways_out(name: RestatementId, held: Sequence[HeldEpochs]) -> str:
    """Return the two commands that end a hold."""
    jobs = " ".join(dict.fromkeys(epochs.job for epochs in held))
    return (
        f"decide about each job: `airflow epochs restate join {quote(name)} {jobs}` has its epochs computed again "
        f"within it; `airflow epochs restate release {quote(name)} {jobs} --reason …` leaves them as they are, with a "
        "label."
    )


def _missing(job: JobName, interval: Interval, reason: str) -> Missing:
    return Missing(name=TableName(job), wanted=interval.end, reason=reason)
