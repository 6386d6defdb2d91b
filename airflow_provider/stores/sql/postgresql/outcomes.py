"""Interpret PostgreSQL's errors: was something changed, does another try help, what should the user do."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from airflow_provider.domain.errors import (
    EpochError,
    InvalidInput,
    OutcomeUnknown,
    StoreIncompatible,
    StoreUnavailable,
)
from airflow_provider.stores.sql.postgresql.connections import (
    ConnectFailed,
    NoAnswer,
    SessionEnded,
    StandbyMet,
)

_TRANSIENT = frozenset(
    {
        "40001",  # serialization failure
        "40P01",  # deadlock: another of those involved goes on
        "23505",  # another transaction created the record that must be absent: the next try finds it
        "25P03",  # this client was stopped for so long that the server rolled back
    }
)
_SHUTTING_DOWN = "57P"
_CONNECTION = "08"
_NOT_A_STORE = ("42", "3F", "XX")
"""Classes: a table or column is missing, no such schema, damaged data."""
_TOO_LARGE = "54"
"""Class: a limit of the server, which only the key of a record can reach."""
_NOT_ALLOWED = "42501"
_STANDBY = "55000"
"""A standby was asked for its position in the log, which only a primary writes."""

_PRIMARY = (
    "name the primary server in the store's address, not a standby; or all of them: HOST:PORT,HOST:PORT."
)
_NEXT_STEPS = {
    "55P03": "find the session that holds the lock (SELECT * FROM pg_stat_activity WHERE state <> 'idle'); try again.",
    "57014": "find out what keeps the server busy; then try again.",
    "53100": "make room on the server's disk; then try again.",
    "53300": "raise the server's max_connections, or let fewer processes use the store; then try again.",
    "25006": _PRIMARY,
    _STANDBY: _PRIMARY,
}
_CHECK_CONNECTION = (
    "check that the server runs, and host, port, database, user and password of the store's URL (in Airflow: host, "
    "port, schema, login and password of its connection)."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Refusal:
    """Reason of a server to refuse every connection with this address, now and later.

    :param said: pattern of the server's message.
    :param field: the field of the Airflow connection that is wrong.
    :param expected: a value that the server would accept.
    """

    said: re.Pattern[str]
    field: str
    expected: str


_REFUSALS = tuple(
    Refusal(said=re.compile(said), field=field, expected=expected)
    for said, field, expected in (
        (
            r'no password supplied|authentication failed|role ".*" (does not exist|is not permitted to log in)',
            "login, password",
            "a user and a password that the server knows",
        ),
        (
            r"no pg_hba\.conf entry|pg_hba\.conf rejects",
            "login",
            "a user whom the server's pg_hba.conf lets in from this host, encrypted as extra sslmode says",
        ),
        (r'database ".*" does not exist', "schema", "the name of a database of the server"),
        (r"permission denied for database", "login", "a user with the privilege CONNECT on the database"),
        (
            r"server does not support SSL",
            "sslmode",
            "a server that encrypts, which is required of every host but this one; or extra sslmode 'disable'",
        ),
    )
)
"""Messages of servers and libpq, in English: neither gives a code for a refused connection. In another language the
error counts as :class:`StoreUnavailable`, with the server's own words."""


def refusal(error: BaseException | None) -> Refusal | None:
    """Return the server's reason to refuse the connection for good; None if it did not, or gave no known reason."""
    if not isinstance(error, ConnectFailed):
        return None
    return next((known for known in _REFUSALS if known.said.search(str(error))), None)


def sqlstate(error: BaseException) -> str:
    """Return the server's error code, or an empty text for an error that the server did not send."""
    original = error.orig if isinstance(error, DBAPIError) else error
    return str(getattr(original, "sqlstate", None) or "")


def is_transient(error: BaseException, *, committing: bool, answered: bool) -> bool:
    """Return whether nothing was changed and another try is likely to help soon.

    :param answered: the server has answered before: if it cannot be reached now, it is being restarted.
    """
    original = error.orig if isinstance(error, DBAPIError) else None
    if isinstance(original, ConnectFailed):
        return answered and refusal(original) is None
    if isinstance(original, NoAnswer):
        return False
    if sqlstate(error) in _TRANSIENT or isinstance(original, SessionEnded):
        return True
    if sqlstate(error) == _STANDBY:
        return answered and not committing
    lost = isinstance(error, DBAPIError) and error.connection_invalidated
    return lost and not committing


def translated(error: Exception, location: str, *, committing: bool) -> EpochError:
    """Return the package's error for *error*."""
    code = sqlstate(error)
    original = error.orig if isinstance(error, DBAPIError) else error
    reason = " ".join(str(original).split()) or type(original).__name__
    if (refused := refusal(original)) is not None:
        return _refused(refused, location)
    if committing and not _is_refusal(code):
        return OutcomeUnknown.of(location, "commit", reason)
    if code.startswith(_TOO_LARGE):
        return InvalidInput(
            field="key",
            value=reason,
            expected="domain, partition and item that take less than 2,600 bytes together",
            next_step="use shorter names.",
        )
    if code == _NOT_ALLOWED:
        return StoreIncompatible(
            f"{location}: this user may not do so: {reason}.",
            next_step="let the role that ran `airflow epochs db upgrade` grant this user USAGE on the store's schema, "
            "SELECT, INSERT, UPDATE and DELETE on its tables, and USAGE on its sequences.",
            store=location,
            found=reason,
        )
    if code.startswith(_NOT_A_STORE):
        return StoreIncompatible(
            f"{location} cannot be used as a metadata store: {reason}.",
            next_step="run `airflow epochs db check`.",
            store=location,
            found=reason,
        )
    if isinstance(original, StandbyMet):
        next_step = _PRIMARY
    elif isinstance(error, PoolTimeout):
        next_step = "let fewer threads use one store; then try again."
    else:
        next_step = _NEXT_STEPS.get(code, _CHECK_CONNECTION)
    return StoreUnavailable(f"{location}: {reason}.", next_step=next_step, store=location)


def _refused(why: Refusal, location: str) -> InvalidInput:
    """Build the error for a refused connection, without the server's own words: they name the user."""
    return InvalidInput(
        f"{location} refuses the connection: {why.field} is not accepted; expected {why.expected}.",
        next_step=f"correct {why.field} in the store's URL; in Airflow, in the connection that leads there "
        "(epochs_default unless another one is named), then `airflow epochs db check`.",
        field=why.field,
        value="(not shown)",
        expected=why.expected,
        store=location,
    )


def _is_refusal(code: str) -> bool:
    """Return whether the server said that it did not commit; the end of a session says nothing about a commit."""
    return bool(code) and not code.startswith((_CONNECTION, _SHUTTING_DOWN))
