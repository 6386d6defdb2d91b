"""Entries of an epoch's barrier log: what an attempt has PROCESSED and WRITTEN, and that it is complete (R1)."""

from __future__ import annotations

from airflow_provider.coordination.attempts.fence import fence_of
from airflow_provider.coordination.attempts.join import overtaken
from airflow_provider.domain.epoch import Attempt, BarrierRecord, EpochState
from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.records import barrier_key
from airflow_provider.domain.version import Committable
from airflow_provider.stores.base import (
    Absent,
    Exists,
    MetadataStore,
    Put,
    RequirementFailed,
    SameStore,
    Transaction,
)


def entry(
    attempt: Attempt, sink: str, state: EpochState, committable: Committable | None = None
) -> BarrierRecord:
    """What *attempt* says of *sink*.

    :raises InvalidInput: it has several writers, and is none of them.
    """
    table = attempt.sink(sink)
    if attempt.is_shared and not attempt.subtoken:
        raise InvalidInput(
            field="participant",
            value=None,
            expected=f"one of the {attempt.participants} participants of {attempt}",
            next_step="join the attempt, and write with what join returns.",
        )
    return BarrierRecord(
        state=state,
        sink=table.name,
        token=attempt.token,
        participant=attempt.participant,
        subtoken=attempt.subtoken,
        owner=attempt.owner,
        committable=committable,
    )


def completion(attempt: Attempt) -> BarrierRecord:
    """That all writers of *attempt* came to their end: its WRITTEN of no sink."""
    return BarrierRecord(
        state=EpochState.WRITTEN, sink="", token=attempt.token, participant=0, owner=attempt.owner
    )


def report(
    store: MetadataStore, attempt: Attempt, record: BarrierRecord, without: tuple[Absent, ...] = ()
) -> None:
    """Append *record* to the barrier log; a repetition with equal content changes nothing (R1).

    :param without: newer tries of participants that must not be there (R10).
    :raises Fenced: a newer attempt, or a newer try of the participant, exists.
    :raises Conflict: a participant was begun again. :raises InvalidInput: other content is there.
    """
    key = barrier_key(
        attempt.domain,
        attempt.job,
        attempt.interval.start,
        token=record.token,
        sink=record.sink,
        state=record.state,
        participant=record.participant,
        subtoken=record.subtoken,
    )
    try:
        store.transact(
            Transaction(
                domain=attempt.domain,
                store=SameStore(attempt.incarnation),
                requires=(Exists(fence_of(attempt), attempt.fence), Absent(key), *without),
                updates=(Put(key, record),),
            )
        )
    except RequirementFailed as error:
        reading = store.read(attempt.domain, [key])
        existing = reading.get(key)
        if existing is None or reading.head.incarnation != attempt.incarnation:
            raise overtaken(store, attempt, without) from error
        if existing.record != record:
            raise _other_content(existing.record, record) from error


def _other_content(existing: BarrierRecord, offered: BarrierRecord) -> InvalidInput:
    return InvalidInput(
        f"{offered.sink}: {offered.state} was reported with other content: "
        f"recorded {_content(existing)}, offered {_content(offered)}.",
        next_step="report each sink once per attempt; what was recorded first stays.",
        field="committable",
        value=offered.committable,
        expected=existing.committable,
    )


def _content(record: BarrierRecord) -> str:
    if record.committable is None:
        return "nothing"
    one = record.committable
    return f"{one.rows} rows in {one.files} files with checksum {one.checksum}"
