"""Reports in an epoch's state log: an attempt's PROCESSED and WRITTEN output, and its completion (R1)."""

from __future__ import annotations

from airflow_provider.coordination.attempts.join import newer_try, overtaken, refuse_alone, whole
from airflow_provider.coordination.attempts.state_log import state_log
from airflow_provider.coordination.context import Context
from airflow_provider.domain.epoch import Attempt, AttemptEvent, EpochState
from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.records import entry_key, fence_of
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


def processed(context: Context, attempt: Attempt, sink: str) -> None:
    """Report that all records for *sink* are in files that no reader can reach.

    :raises Fenced: a newer attempt, or a newer try of this participant, exists; nothing was changed.
    """
    _report(context, attempt, _entry(attempt, sink, EpochState.PROCESSED))


def written(context: Context, attempt: Attempt, sink: str, committable: Committable) -> None:
    """Record the output to be published for *sink*.

    :raises Fenced: a newer attempt, or a newer try of this participant, exists; nothing was changed.
    :raises InvalidInput: other content was recorded for the same attempt, participant and sink (R1).
    """
    _report(context, attempt, _entry(attempt, sink, EpochState.WRITTEN, committable))


def complete(context: Context, attempt: Attempt) -> None:
    """Record that the attempt's code came to its end, before another process publishes it.

    A later attempt adopts complete output only (R16): code that dies after its last write may have been
    about to refuse it.

    :raises Fenced: a newer attempt exists. :raises NotReady: participants have not WRITTEN; ``missing`` lists them.
    :raises Conflict: a participant was begun again meanwhile.
    """
    refuse_alone(attempt)

    def operation() -> None:
        shared = attempt.is_shared
        log = state_log(context.store, attempt) if shared else []
        report(context.store, attempt, _completion(attempt), whole(attempt, [entry.record for entry in log]))

    context.retry(operation)


def _report(context: Context, attempt: Attempt, record: AttemptEvent) -> None:
    context.retry(lambda: report(context.store, attempt, record, newer_try(attempt)))


def _entry(
    attempt: Attempt, sink: str, state: EpochState, committable: Committable | None = None
) -> AttemptEvent:
    """Return the report of *attempt* on *sink*.

    :raises InvalidInput: the attempt has several writers, and is not held by one of them.
    """
    table = attempt.sink(sink)
    if attempt.is_shared and not attempt.participant_attempt:
        raise InvalidInput(
            field="participant",
            value=None,
            expected=f"one of the {attempt.participants} participants of {attempt}",
            next_step="join the attempt, and write with what join returns.",
        )
    return AttemptEvent(
        state=state,
        sink=table.name,
        token=attempt.token,
        participant=attempt.participant,
        participant_attempt=attempt.participant_attempt,
        owner=attempt.owner,
        committable=committable,
    )


def _completion(attempt: Attempt) -> AttemptEvent:
    """Return the report that all writers of *attempt* have ended: WRITTEN without a sink."""
    return AttemptEvent(
        state=EpochState.WRITTEN, sink="", token=attempt.token, participant=0, owner=attempt.owner
    )


def report(
    store: MetadataStore, attempt: Attempt, record: AttemptEvent, without: tuple[Absent, ...] = ()
) -> None:
    """Append *record* to the state log; a repetition with equal content changes nothing (R1).

    :param without: newer tries of participants, required to be absent (R10).
    :raises Fenced: a newer attempt, or a newer try of the participant, exists.
    :raises Conflict: a participant was begun again. :raises InvalidInput: other content is recorded.
    """
    key = entry_key(attempt, record)
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
        # Equal content is this report itself, sent again after a lost reply.
        if existing is None or reading.head.incarnation != attempt.incarnation:
            raise overtaken(store, attempt, without) from error
        if existing.record != record:
            raise _other_content(existing.record, record) from error


def _other_content(existing: AttemptEvent, offered: AttemptEvent) -> InvalidInput:
    return InvalidInput(
        f"{offered.sink}: {offered.state} was reported with other content: "
        f"recorded {_content(existing)}, offered {_content(offered)}.",
        next_step="report each sink once per attempt; what was recorded first stays.",
        field="committable",
        value=offered.committable,
        expected=_content(existing),
    )


def _content(record: AttemptEvent) -> str:
    if record.committable is None:
        return "nothing"
    output = record.committable
    return f"{output.rows} rows in {output.files} files with checksum {output.checksum}"
