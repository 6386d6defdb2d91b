"""The families of errors, and the refusal of a value: what every module may raise, the lowest ones too."""

from __future__ import annotations

from dataclasses import KW_ONLY, MISSING, dataclass, fields
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar, Self, TypeVar


@dataclass(eq=False, repr=False)
class EpochError(Exception):
    """Root of all errors that this package raises on purpose.

    :param message: what is wrong, with the values concerned. :param next_step: what to do about it.
    """

    family: ClassVar[str] = "stop"

    message: str
    _: KW_ONLY
    next_step: str = ""

    def __post_init__(self) -> None:
        super().__init__(f"{self.message} Next step: {self.next_step}" if self.next_step else self.message)

    @property
    def details(self) -> dict[str, Any]:
        """The attributes that the class declares, by name, without optional ones that have their default."""
        declared = [entry for entry in fields(self) if entry.name not in ("message", "next_step")]
        values = {entry.name: getattr(self, entry.name) for entry in declared}
        return {
            entry.name: values[entry.name]
            for entry in declared
            if entry.default is MISSING or values[entry.name] != entry.default
        }

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), {entry.name: getattr(self, entry.name) for entry in fields(self)})


def _rebuild(kind: type[EpochError], values: dict[str, Any]) -> EpochError:
    return kind(**values)


@dataclass(kw_only=True, eq=False, repr=False)
class RetryableError(EpochError):
    """The request may succeed later, unchanged."""

    family: ClassVar[str] = "retry"


@dataclass(kw_only=True, eq=False, repr=False)
class FinalError(EpochError):
    """The request cannot succeed as it is."""

    family: ClassVar[str] = "stop"


@dataclass(kw_only=True, eq=False, repr=False)
class OutcomeUnknown(EpochError):
    """The reply was lost: the change may or may not have been made (R15). Ask, never guess, never undo.

    :param store: address of the metadata store, without secrets.
    """

    family: ClassVar[str] = "ask"

    store: str = ""

    @classmethod
    def of(cls, store: str, what: str, reason: object) -> Self:
        """Return the error for *what* (a commit) of *store*, which was not confirmed, for *reason*."""
        return cls(
            f"{store}: the {what} was not confirmed: {reason}.",
            next_step="read what the transaction would have changed.",
            store=store,
        )


@dataclass(eq=False, repr=False)
class InvalidInput(FinalError):
    """A value is not accepted; the message names the field, the value and the expected one.

    :param field: name of the argument, the setting or the part of a record. :param value: what it has.
    :param expected: what is accepted, in words.
    :param table: name of the table concerned. :param column: path of its column. :param source: name of the source.
    :param conn_id: id of the Airflow connection that has the value.
    :param store: address of the metadata store that refuses the value, without secrets.
    :param count: number of files concerned.
    :param missing: epochs or outputs that a program left out, as text.
    :param part: field of an Airflow connection that a refused part of a store's URL comes from.
    :param restatement: the restatement that the value would harm. :param until: time from which it is accepted.
    """

    message: str = ""
    _: KW_ONLY
    field: str
    value: object
    expected: str
    table: str = ""
    column: str = ""
    source: str = ""
    conn_id: str = ""
    store: str = ""
    count: int | None = None
    missing: tuple[str, ...] = ()
    part: str = ""
    restatement: str = ""
    until: datetime | None = None

    def __post_init__(self) -> None:
        if not self.message:
            self.message = f"{self.field}: {shown(self.value)} is not accepted; expected {self.expected}."
        self.next_step = self.next_step or f"correct {self.field}, and try again."
        super().__post_init__()


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


def shown(value: Any, limit: int = 120) -> str:
    """Return *value* as text for a message: at most *limit* characters of its ``repr``; never raises."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - whatever it raises, the refusal itself is what matters
        return f"a {type(value).__name__} that cannot be shown"
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"
