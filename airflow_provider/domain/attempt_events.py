"""Facts about an attempt in its epoch's state log: participants, WRITTEN output, passed checks. Pure functions."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from airflow_provider.domain.epoch import AttemptEvent, AttemptRecord, EpochState
from airflow_provider.domain.identifiers import TableName
from airflow_provider.domain.version import Committable


def completed(events: Iterable[AttemptEvent], token: int) -> bool:
    """Return True if the code of the attempt with *token* came to its end, and did not just write its outputs."""
    return any(
        entry.token == token and not entry.sink and entry.state is EpochState.WRITTEN for entry in events
    )


def checked(events: Iterable[AttemptEvent], tokens: Collection[int]) -> bool:
    """Return True if the checks have passed on what the attempt with one of *tokens* staged or was to publish."""
    return any(entry.token in tokens and entry.state is EpochState.CHECKED for entry in events)


def newest_tries(events: Iterable[AttemptEvent], token: int) -> dict[int, int]:
    """Return the newest participant attempt of each participant that has joined the attempt with *token* (R10)."""
    newest: dict[int, int] = {}
    for entry in events:
        if entry.token == token and entry.state is EpochState.OPEN and entry.participant_attempt:
            newest[entry.participant] = max(entry.participant_attempt, newest.get(entry.participant, 0))
    return newest


def written_output(
    events: Iterable[AttemptEvent], sinks: Collection[TableName], *, token: int, participants: int
) -> dict[TableName, tuple[Committable, ...]]:
    """Return the committables of those *sinks* that the newest try of every participant has WRITTEN with *token*."""
    return {
        sink: tuple(committable for _, committable in sorted(parts.items()))
        for sink, parts in _written_parts(events, sinks, token).items()
        if len(parts) == participants
    }


def is_complete(events: Iterable[AttemptEvent], attempt: AttemptRecord, sinks: Collection[TableName]) -> bool:
    """Return True if the output of *attempt* is WRITTEN for all *sinks*, and its code came to its end."""
    log, token = list(events), attempt.output_token
    output = written_output(log, sinks, token=token, participants=attempt.participants)
    return set(output) == set(sinks) and completed(log, token)


def unwritten_parts(
    events: Iterable[AttemptEvent], sinks: Collection[TableName], *, token: int, participants: int
) -> dict[TableName, list[int]]:
    """Return the participants whose newest try has not WRITTEN a sink with *token*, by sink; no whole sinks."""
    written = _written_parts(events, sinks, token)
    missing = {sink: sorted(set(range(participants)) - set(parts)) for sink, parts in written.items()}
    return {sink: numbers for sink, numbers in missing.items() if numbers}


def _written_parts(
    events: Iterable[AttemptEvent], sinks: Collection[TableName], token: int
) -> dict[TableName, dict[int, Committable]]:
    """Return the committable that the newest try of each participant has WRITTEN, by sink and participant."""
    written: dict[TableName, dict[int, Committable]] = {sink: {} for sink in sinks}
    log = list(events)
    newest = newest_tries(log, token)
    for entry in log:
        # An earlier try of a participant is fenced, whatever it has WRITTEN (R10).
        if entry.token != token or entry.participant_attempt != newest.get(entry.participant, 0):
            continue
        if entry.state is EpochState.WRITTEN and entry.committable and entry.sink in written:
            written[TableName(entry.sink)][entry.participant] = entry.committable
    return written
