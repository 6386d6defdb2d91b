"""Several writers of one attempt: each joins, and its retry fences its own earlier tries only (R10).

A try of a participant is an entry of the epoch's log, numbered without gaps: the *participant attempt*. Each report of
a try requires the absence of the next entry; so does each decision on the reports of the newest tries
(docs/decisions/participants.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from airflow_provider.coordination.attempts import staging
from airflow_provider.coordination.attempts.fence import fenced
from airflow_provider.coordination.attempts.state_log import checked_key, completed_key, joined_key, state_log
from airflow_provider.coordination.context import Context
from airflow_provider.domain.attempt_events import newest_tries, unwritten_parts
from airflow_provider.domain.epoch import Attempt, AttemptEvent, EpochState
from airflow_provider.domain.errors import Conflict, EpochError, Fenced, InvalidInput, NotReady
from airflow_provider.domain.missing import Missing
from airflow_provider.domain.owner import Owner, as_owner
from airflow_provider.domain.records import fence_of
from airflow_provider.stores.base import Absent, Exists, MetadataReader, Put, SameStore, Transaction


@dataclass(frozen=True, slots=True)
class Join:
    """Request of a participant's try to join; ``run`` may be repeated and returns the same answer.

    :param owner: of the try, with the id of this request.
    """

    context: Context
    attempt: Attempt
    number: int
    owner: Owner

    def run(self) -> Attempt:
        """Join, or find that this request has joined already.

        :raises RequirementFailed: a concurrent request won: decide again.
        """
        self._refuse_unfit()
        attempt, log = self.attempt, self._log()
        tries = [event for event in log if event.token == attempt.token and event.participant == self.number]
        joins = [event for event in tries if event.state is EpochState.OPEN and event.participant_attempt]
        newest = max(joins, key=lambda event: event.participant_attempt, default=None)
        participant_attempt = newest.participant_attempt if newest else 0
        if newest is None or newest.owner != self.owner:
            mine = replace(attempt, participant=self.number)
            if newest is not None and (newest.owner.order > self.owner.order or self._has_joined(joins)):
                raise retried(mine, newest)
            participant_attempt += 1
            self._store(participant_attempt)
        joined = replace(attempt, participant=self.number, participant_attempt=participant_attempt)
        # Also when this request had joined and its reply was lost: nothing was deleted then.
        self._roll_back_earlier(joined)
        return joined

    def _refuse_unfit(self) -> None:
        attempt = self.attempt
        if not attempt.is_shared:
            raise InvalidInput(
                field="participant",
                value=self.number,
                expected=f"none: {attempt} has one writer",
                next_step="write with the attempt itself; its retry begins a new one.",
            )
        if not isinstance(self.number, int) or not 0 <= self.number < attempt.participants:
            raise InvalidInput(
                field="participant", value=self.number, expected=f"0 to {attempt.participants - 1}"
            )
        if attempt.adopted:
            raise InvalidInput(
                field="participant",
                value=self.number,
                expected=f"none: the output of {attempt} is complete",
                next_step="publish it; nothing is left to be written.",
            )

    def _log(self) -> list[AttemptEvent]:
        """Return the epoch's log, while the attempt accepts tries.

        :raises Fenced: a newer attempt exists. :raises Conflict: its output is complete or checked.
        """
        attempt = self.attempt
        fence = fence_of(attempt)
        ends = [completed_key(attempt), checked_key(attempt, attempt.token)]
        reading = self.context.store.read(attempt.domain, [fence, *ends])
        epoch = reading.get(fence)
        if epoch is None or epoch.version != attempt.fence or reading.head.incarnation != attempt.incarnation:
            raise fenced(self.context.store, attempt)
        if any(key in reading.records for key in ends):
            raise Conflict(
                f"{attempt}: its output is complete; participant {self.number} comes too late.",
                next_step="publish it, or begin a new attempt.",
            )
        return [entry.record for entry in state_log(self.context.store, attempt)]

    def _has_joined(self, joins: list[AttemptEvent]) -> bool:
        """Return True if this request has joined before; as it is not the newest try, a later one has fenced it."""
        return any(event.owner.same_call(self.owner) for event in joins)

    def _store(self, participant_attempt: int) -> None:
        attempt = self.attempt
        key = joined_key(attempt, self.number, participant_attempt)
        record = AttemptEvent(
            state=EpochState.OPEN,
            sink="",
            token=attempt.token,
            participant=self.number,
            participant_attempt=participant_attempt,
            owner=self.owner,
            note=f"participant {self.number} of {attempt.participants}, its try {participant_attempt}",
        )
        self.context.store.transact(
            Transaction(
                domain=attempt.domain,
                store=SameStore(attempt.incarnation),
                requires=(
                    Exists(fence_of(attempt), attempt.fence),
                    Absent(key),
                    # Complete or checked output is decided on: no part of it may change.
                    Absent(completed_key(attempt)),
                    Absent(checked_key(attempt, attempt.token)),
                ),
                updates=(Put(key, record),),
            )
        )

    def _roll_back_earlier(self, joined: Attempt) -> None:
        """Delete the staged output of the participant's own earlier tries: they are fenced and cannot be published."""
        for participant_attempt in range(1, joined.participant_attempt):
            earlier = replace(joined, participant_attempt=participant_attempt)
            places = [staging.place(self.context.formats, earlier, sink.name) for sink in joined.sinks]
            staging.roll_back(self.context.formats, places)


def join(context: Context, attempt: Attempt, participant: int, owner: Owner) -> Attempt:
    """Let one of several writers of *attempt* begin, or begin again: its earlier tries are fenced, no others (R10).

    The staged output of its earlier tries is deleted; the other participants go on. Tries of one participant
    are ordered by their owners, as attempts are.

    :param participant: 0 to ``attempt.participants - 1``. :param owner: of this try.
    :return: the attempt with which this try writes and sends heartbeats.
    :raises Fenced: a newer attempt, or a newer try of this participant, exists.
    :raises Conflict: the attempt's output is complete or checked: no part of it may change.
    :raises InvalidInput: the attempt has one writer, lacks this participant, or adopts complete output.
    """
    asking = replace(as_owner(owner), request_id=context.request_id())
    return context.retry(
        Join(context, attempt, participant, asking).run,
        Conflict.of_others(str(attempt), "joining it", job=attempt.job),
    )


def tries(log: Iterable[AttemptEvent], token: int) -> list[tuple[int, int]]:
    """Return participant and participant attempt of every try that has joined the attempt with *token*."""
    newest = newest_tries(log, token)
    return [(number, attempt) for number, last in sorted(newest.items()) for attempt in range(1, last + 1)]


def unjoined(attempt: Attempt, log: Iterable[AttemptEvent]) -> tuple[Absent, ...]:
    """Return requirements that no participant has joined since *log* was read; none for an attempt with one writer."""
    if not attempt.is_shared or attempt.adopted:
        return ()
    newest = newest_tries(log, attempt.token)
    numbers = range(attempt.participants)
    return tuple(Absent(joined_key(attempt, number, newest.get(number, 0) + 1)) for number in numbers)


def whole(attempt: Attempt, log: Iterable[AttemptEvent]) -> tuple[Absent, ...]:
    """Return the requirements of :func:`unjoined` once every participant has WRITTEN every output.

    :raises NotReady: output is not WRITTEN; ``missing`` has each output with its participants.
    """
    known, names = list(log), [sink.name for sink in attempt.sinks]
    missing = (
        unwritten_parts(known, names, token=attempt.token, participants=attempt.participants)
        if attempt.is_shared and not attempt.adopted
        else {}
    )
    if missing:
        raise NotReady(
            f"{attempt}: not WRITTEN: "
            + "; ".join(f"{sink} by participants {', '.join(map(str, who))}" for sink, who in missing.items())
            + ".",
            next_step="let these participants write, or begin them again; then end the epoch.",
            missing=tuple(
                Missing(
                    name=sink,
                    reason=f"not WRITTEN by participants {', '.join(map(str, who))}",
                    participants=tuple(who),
                )
                for sink, who in missing.items()
            ),
        )
    return unjoined(attempt, known)


def newer_try(attempt: Attempt) -> tuple[Absent, ...]:
    """Return the requirement that *attempt* is the newest try of its participant; none for the only writer."""
    return (
        (Absent(joined_key(attempt, attempt.participant, attempt.participant_attempt + 1)),)
        if attempt.participant_attempt
        else ()
    )


def refuse_alone(attempt: Attempt) -> None:
    """Refuse one participant's request to end or check the attempt of all.

    :raises InvalidInput: *attempt* is of one participant.
    """
    if attempt.participant_attempt:
        raise InvalidInput(
            field="attempt",
            value=str(attempt),
            expected="the attempt as begin returned it",
            next_step="let the participant end; the process that began the attempt ends it for all of them.",
        )


def retried(attempt: Attempt, newest: AttemptEvent) -> Fenced:
    """Return the error for a participant's try that is over."""
    return Fenced(
        f"{attempt}: this try is over; participant {newest.participant} was begun again by {newest.owner}.",
        next_step="let this process end; it has changed nothing, and the other participants go on.",
        expected=attempt.participant_attempt,
        found=newest.participant_attempt,
        by=newest.owner,
    )


def overtaken(reader: MetadataReader, attempt: Attempt, missing: tuple[Absent, ...]) -> EpochError:
    """Return the error for a refused report: the attempt is over, or one of *missing* exists by now."""
    fence = fence_of(attempt)
    reading = reader.read(attempt.domain, [fence, *(absent.key for absent in missing)])
    epoch = reading.get(fence)
    joins = [reading.of(absent.key).record for absent in missing if absent.key in reading.records]
    if epoch is None or epoch.version != attempt.fence or not joins:
        return fenced(reader, attempt)
    if attempt.participant_attempt:
        return retried(attempt, joins[0])
    return Conflict(
        f"{attempt}: participant {joins[0].participant} was begun again by {joins[0].owner} meanwhile.",
        next_step="wait until all participants have written, then ask again.",
    )
