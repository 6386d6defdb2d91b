"""Errors, in families by the caller's next step (protocol section 10).

* :class:`RetryableError`: wait or try again; nothing is wrong with the request.
* :class:`FinalError`: stop; the same request will fail again.
* :class:`OutcomeUnknown`: ask the store; neither repeat blindly nor undo.

Every error has its data as attributes (``error.details``), and its message ends with the next step to take.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Self, TypeVar


class EpochError(Exception):
    """Root of all errors that this package raises on purpose."""

    family = "stop"

    def __init__(self, message: str, *, next_step: str = "", **details: Any) -> None:
        self.message = message
        self.next_step = next_step
        self.details = details
        super().__init__(f"{message} Next step: {next_step}" if next_step else message)

    def __getattr__(self, name: str) -> Any:
        details = self.__dict__.get("details", {})
        if name in details:
            return details[name]
        raise AttributeError(name)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, self.next_step, self.details)


def _rebuild(kind: type[EpochError], message: str, next_step: str, details: dict[str, Any]) -> EpochError:
    return kind(message, next_step=next_step, **details)


class RetryableError(EpochError):
    """The request may succeed later, unchanged."""

    family = "retry"


class FinalError(EpochError):
    """The request cannot succeed as it is."""

    family = "stop"


class OutcomeUnknown(EpochError):
    """The reply was lost: the change may or may not have been made (R15). Ask, never guess, never undo."""

    family = "ask"


class Conflict(RetryableError):
    """Another commit changed a record that this attempt decided on; stage or resolve again (R11, R13)."""


class StoreUnavailable(RetryableError):
    """The metadata store did not answer; nothing was changed by this call."""


class PackageTooOld(RetryableError):
    """A newer version of the package wrote data that this version cannot read; an upgraded host goes on."""


class SourceUnavailable(RetryableError):
    """A source did not answer; no bounds were recorded."""


class UnknownConnection(RetryableError):
    """Airflow has no connection ``conn_id``, or its secrets backend does not answer: Airflow reports both alike."""


class NotReady(RetryableError):
    """Inputs or tables have not reached the barrier yet; ``missing`` lists them."""


class EpochBusy(RetryableError):
    """A live attempt of another owner holds the epoch; ``holder`` is its owner, ``until`` the end of its lock."""


class LeaseHeld(RetryableError):
    """A live lease of another owner has the id; ``holder`` is its owner, ``until`` its end."""


class Fenced(FinalError):
    """A newer token exists; this attempt is over and has changed nothing (R10)."""


class StoreReplaced(Fenced):
    """The attempt was begun in the store before a restore or the promotion of a standby (R33).

    The next try of its task begins anew.
    """


class LeaseExpired(FinalError):
    """The claim on a cut ended before the read did (R22)."""


class Unavailable(FinalError):
    """The requested states no longer exist; ``kept`` lists the nearest barriers that do."""


class CheckFailed(FinalError):
    """A declared check refused the staged data (R14)."""


class InvalidInput(FinalError):
    """A value is not accepted; the message names the field, the value and the expected one."""

    def __init__(self, message: str = "", *, next_step: str = "", **details: Any) -> None:
        if not message:
            message = (
                f"{details.get('field')}: {shown(details.get('value'))} is not accepted; "
                f"expected {details.get('expected')}."
            )
        next_step = next_step or f"correct {details.get('field')}, and try again."
        super().__init__(message, next_step=next_step, **details)


Chosen = TypeVar("Chosen", bound=StrEnum)


def choice(kind: type[Chosen], value: object, field: str) -> Chosen:
    """Return *value* as one of *kind*.

    :raises InvalidInput: not one of *kind*; names *field* and the choices.
    """
    try:
        return kind(str(value))
    except ValueError as error:
        raise InvalidInput(
            field=field, value=value, expected=f"one of {[member.value for member in kind]}"
        ) from error


class MissingLibrary(FinalError):
    """An optional library is not installed; ``library`` names it, the next step has the command."""


class RecordFull(FinalError):
    """A record would exceed its limit, and nothing was changed; see ``record``, ``number`` and ``limit``."""

    @classmethod
    def of(cls, record: str, number: int, limit: int, *, next_step: str) -> Self:
        """Return the error for *record*, which would have *number* entries, more than *limit*."""
        return cls(
            f"{record}: {number} would exceed the limit of {limit}.",
            next_step=next_step,
            record=record,
            number=number,
            limit=limit,
        )


class UnknownName(FinalError):
    """No job or table of that name is registered in the domain."""


class TopologyError(FinalError):
    """A registration contradicts the topology (R6)."""


class DependentReaders(FinalError):
    """A committed epoch cannot be computed again: committed readers depend on it; ``readers`` lists them."""


class ForeignCommit(FinalError):
    """Another program wrote to the table outside the protocol (R17)."""


class SchemaMismatch(FinalError):
    """Rows or declared changes do not fit the table's columns; ``column`` names the column (R32)."""


class StoreIncompatible(FinalError):
    """The store's schema, record format or capabilities do not fit this version of the package."""


def shown(value: Any, limit: int = 120) -> str:
    """Return *value* as text for a message: at most *limit* characters of its ``repr``; never raises."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - whatever it raises, the refusal itself is what matters
        return f"a {type(value).__name__} that cannot be shown"
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"
