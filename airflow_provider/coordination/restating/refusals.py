"""Refusals of operations on restatements: a name that is taken, an approval that lacks, a text that is empty."""

from __future__ import annotations

from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.identifiers import RestatementId, validate_text
from airflow_provider.domain.restatement import JobEpochs, RestatementRecord, RestatementState, epochs_of


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
    found = f"{record.approved_by} has approved other rows" if record.approved else "nobody has approved it"
    raise InvalidInput(
        f"restatement {name!r} is published once approved, and {found}.",
        next_step=f"`airflow epochs restate diff {name}`, then `airflow epochs restate approve {name} --digest "
        f"{output}`.",
        field="approved",
        value=record.approved,
        expected=output,
    )


def refuse_blank(**texts: str) -> None:
    """:raises InvalidInput: one of *texts* is empty."""
    for field, words in texts.items():
        if not validate_text(words, field).strip():
            raise InvalidInput(field=field, value=words, expected="words that others will understand later")
