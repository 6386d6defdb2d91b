"""What PostgreSQL's errors mean: whether something was changed, whether trying again helps, what to do."""

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
        "23505",  # somebody made the record that must be absent: the next look finds it
        "25P03",  # we were stopped for so long that the server rolled back
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
"""Asked for its place in a log that it does not write."""

_PRIMARY = (
    "name the primary server in the store's address, not a standby; or all of them: HOST:PORT,HOST:PORT."
)
_NEXT_STEPS = {
    "55P03": "look for who holds the lock (SELECT * FROM pg_stat_activity WHERE state <> 'idle'); try again.",
    "57014": "look at what keeps the server busy; try again.",
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
    """Why a server that was reached lets nobody in with this address: the address is wrong, not the moment.

    :param field: as the Airflow connection has it.
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
"""What servers and libpq say, in English: neither tells a code for a connection that was refused. In another
language the error counts as :class:`StoreUnavailable`, with the server's own words."""


def refusal(error: BaseException | None) -> Refusal | None:
    """Return why the server refused the connection for good, None when it did not or did not say."""
    if not isinstance(error, ConnectFailed):
        return None
    return next((one for one in _REFUSALS if one.said.search(str(error))), None)


def sqlstate(error: BaseException) -> str:
    """The code that the server gave, or empty for an error that it did not send."""
    original = error.orig if isinstance(error, DBAPIError) else error
    return str(getattr(original, "sqlstate", None) or "")


def is_transient(error: BaseException, *, committing: bool, answered: bool) -> bool:
    """Whether nothing was changed and trying again soon is likely to help.

    :param answered: the server has answered before, so that one that cannot be reached is being restarted.
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
    """Return what *error* means to a caller."""
    code = sqlstate(error)
    original = error.orig if isinstance(error, DBAPIError) else error
    reason = " ".join(str(original).split()) or type(original).__name__
    if (refused := refusal(original)) is not None:
        return _refused(refused, location)
    if committing and not _is_refusal(code):
        return OutcomeUnknown(
            f"{location}: the commit was not confirmed: {reason}.",
            next_step="read what the transaction would have changed.",
            store=location,
        )
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
    """The server's own words are left out: they name the user."""
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
    """Whether the server said that it did not do it; an end of the session says nothing about a commit."""
    return bool(code) and not code.startswith((_CONNECTION, _SHUTTING_DOWN))
