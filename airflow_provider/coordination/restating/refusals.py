"""Refusals of operations on restatements: a name that is taken, an approval that lacks, a text that is empty."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote

from airflow_provider.coordination.restating.opening import told
from airflow_provider.domain.errors import InvalidInput, NotReady
from airflow_provider.domain.identifiers import JobName, RestatementId, TableName, validate_text
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.missing import Missing
from airflow_provider.domain.restatement import JobEpochs, RestatementRecord, RestatementState, epochs_of

_LISTED = 5


def refuse_another(
    name: RestatementId, known: RestatementRecord, asked: tuple[JobEpochs, ...], reason: str
) -> RestatementRecord:
    """Return *known*, which the same request has opened.

    :raises InvalidInput: it is over, or of another request.
    """
    # More may be committed by now than when it was opened.
    is_same = set(epochs_of(known.asked)) <= set(epochs_of(asked)) and known.reason == reason.strip()
    if known.state is RestatementState.OPEN and is_same:
        return known
    raise InvalidInput(
        f"restatement {name!r} exists: {known.state}, by {known.by}: {known.reason}.",
        next_step="choose another name, or leave it out.",
        field="name",
        value=name,
        expected="a name that no restatement has",
    )


def refuse_unapproved(name: RestatementId, record: RestatementRecord, output: str) -> None:
    """:raises InvalidInput: the restatement needs an approval of *output*, and has none."""
    if not record.needs_approval or record.approved == output:
        return
    found = f"{record.approved_by} has approved other rows" if record.approved else "it has no approval"
    raise InvalidInput(
        f"restatement {name!r} is published once approved, and {found}.",
        next_step=f"`airflow epochs restate diff {quote(name)}`, then `airflow epochs restate approve {quote(name)} "
        f"--digest {output}`.",
        field="approved",
        value=record.approved,
        expected=output,
    )


def refuse_blank(**texts: str) -> None:
    """:raises InvalidInput: one of *texts* is empty."""
    for field, words in texts.items():
        if not validate_text(words, field).strip():
            raise InvalidInput(field=field, value=words, expected="words that others will understand later")


def not_computed(
    name: RestatementId, record: RestatementRecord, missing: Sequence[tuple[JobName, Interval]]
) -> NotReady:
    """Return the error for a restatement whose members *missing* are not staged."""
    return NotReady(
        f"restatement {name!r}: {len(missing)} of {record.size} epochs are not computed: "
        f"{told(f'{job} {interval}' for job, interval in missing)}.",
        next_step="compute them within it, by runs with the configuration "
        f'{{"restatement": "{name}"}} or by epoch_runs(…, restatement={name!r}); '
        f"`airflow epochs restate status {quote(name)}` shows how far each is.",
        missing=_computed_within(missing),
    )


def readers_not_computed(
    name: RestatementId, revert: RestatementId, missing: Sequence[tuple[JobName, Interval]]
) -> NotReady:
    """Return the error for the restatement *name*, whose *revert* waits for epochs that have read its rows."""
    return NotReady(
        f"restatement {name!r} is not taken back yet: its former rows are copied into {revert!r}, and epochs that have "
        f"read its rows are not computed: {told(f'{job} {interval}' for job, interval in missing)}.",
        next_step=f"let their tasks compute them (`airflow epochs backfill … --name {quote(revert)}`, or runs with the "
        f'configuration {{"restatement": "{revert}"}}), then revert again; `airflow epochs restate status '
        f"{quote(revert)}` shows how far each is.",
        missing=_computed_within(missing),
    )


def _computed_within(missing: Sequence[tuple[JobName, Interval]]) -> tuple[Missing, ...]:
    return tuple(
        Missing(name=TableName(job), wanted=interval.end, reason="not computed within it yet")
        for job, interval in missing[:_LISTED]
    )
