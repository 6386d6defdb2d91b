"""What the log of an epoch tells of an attempt: its participants, what is WRITTEN, whether checks have passed."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from airflow_provider.domain.epoch import BarrierRecord, EpochState
from airflow_provider.domain.identifiers import TableName
from airflow_provider.domain.version import Committable


def completed(barriers: Iterable[BarrierRecord], token: int) -> bool:
    """Whether the code of the attempt with *token* came to its end, and did not just write its outputs."""
    return any(one.token == token and not one.sink and one.state is EpochState.WRITTEN for one in barriers)


def checked(barriers: Iterable[BarrierRecord], tokens: Collection[int]) -> bool:
    """Whether the checks have passed on what one of *tokens* staged or was to publish."""
    return any(one.token in tokens and one.state is EpochState.CHECKED for one in barriers)


def newest_tries(barriers: Iterable[BarrierRecord], token: int) -> dict[int, int]:
    """The newest subtoken of each participant that has joined the attempt with *token* (R10)."""
    found: dict[int, int] = {}
    for one in barriers:
        if one.token == token and one.state is EpochState.OPEN and one.subtoken:
            found[one.participant] = max(one.subtoken, found.get(one.participant, 0))
    return found


def written_output(
    barriers: Iterable[BarrierRecord], sinks: Collection[TableName], *, token: int, participants: int
) -> dict[TableName, tuple[Committable, ...]]:
    """Committables of those *sinks* that every participant's newest try with *token* has WRITTEN."""
    return {
        sink: tuple(committable for _, committable in sorted(parts.items()))
        for sink, parts in _written_parts(barriers, sinks, token).items()
        if len(parts) == participants
    }


def unwritten_parts(
    barriers: Iterable[BarrierRecord], sinks: Collection[TableName], *, token: int, participants: int
) -> dict[TableName, list[int]]:
    """Of those *sinks* that are not whole, the participants whose newest try with *token* has not WRITTEN them."""
    written = _written_parts(barriers, sinks, token)
    missing = {sink: sorted(set(range(participants)) - set(parts)) for sink, parts in written.items()}
    return {sink: numbers for sink, numbers in missing.items() if numbers}


def _written_parts(
    barriers: Iterable[BarrierRecord], sinks: Collection[TableName], token: int
) -> dict[TableName, dict[int, Committable]]:
    """What the newest try of each participant has WRITTEN of each of *sinks*."""
    found: dict[TableName, dict[int, Committable]] = {sink: {} for sink in sinks}
    log = list(barriers)
    newest = newest_tries(log, token)
    for one in log:
        if one.token != token or one.subtoken != newest.get(one.participant, 0):
            continue
        if one.state is EpochState.WRITTEN and one.committable and one.sink in found:
            found[TableName(one.sink)][one.participant] = one.committable
    return found
