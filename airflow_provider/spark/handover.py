"""What the submitter of a Spark program hands over to it: its epoch, or its batch of epochs, and the way to the store.

It travels in a file that only its owner may read, since it holds the store's password: a process's arguments, Spark's
settings and its UI show nothing. The environment variable :data:`VARIABLE` names the file, and the program reads it
once, then removes it.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import msgspec

from airflow_provider.coordination.service import Settings
from airflow_provider.domain.declaration import JobDeclaration
from airflow_provider.domain.epoch import Attempt, Owner
from airflow_provider.domain.errors import EpochError, InvalidInput, StoreIncompatible
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.schedule import ExplicitInterval, run_interval
from airflow_provider.domain.topology import EpochJob, as_job
from airflow_provider.stores.declarations import encoded
from airflow_provider.stores.factory import redacted
from airflow_provider.tables.locations import checked_warehouse

VARIABLE = "EPOCHS_HANDOVER"
FORMAT = 1
_PRIVATE = 0o600


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """Epochs that one task computes one after the other; each begins and publishes by itself."""

    interval: Interval
    owner: Owner


@dataclass(frozen=True, kw_only=True, slots=True)
class HandOver:
    """One task's work: an ``attempt`` that was begun already, or a ``batch``.

    :param publishes: whether the program publishes; otherwise it ends at WRITTEN and its submitter publishes.
    """

    settings: Settings
    job: EpochJob
    attempt: Attempt | None = None
    batch: Batch | None = None
    publishes: bool = True

    def __post_init__(self) -> None:
        if (self.attempt is None) == (self.batch is None):
            raise InvalidInput(field="hand-over", value=None, expected="either an attempt or a batch")

    def write(self, directory: Path) -> Path:
        """Write it into a new file in *directory*, readable by this user alone; return the file.

        The value for :data:`VARIABLE` is the path. Remove the file when the program has ended.
        """
        message = _Message(
            format=FORMAT,
            settings=self.settings,
            job=JobDeclaration.of(self.job),
            attempt=self.attempt,
            batch=self.batch,
            publishes=self.publishes,
        )
        subject = self.attempt.token if self.attempt else "batch"
        path = directory / f"handover-{os.getpid()}-{subject}-{os.urandom(8).hex()}.json"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE)
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.encode(message))
        return path


@lru_cache(maxsize=1)
def received() -> HandOver | None:
    """Return what was handed over to this process, None when it was started by hand.

    The file is removed; later calls return the same.

    :raises InvalidInput: the file is missing, may be read by others, or is no hand-over.
    :raises StoreIncompatible: it was written by another version of the package.
    """
    name = os.environ.get(VARIABLE)
    if name is None:
        return None
    handed = _read(Path(name))
    del os.environ[VARIABLE]
    Path(name).unlink()
    return handed


def _read(path: Path) -> HandOver:
    try:
        status = path.stat()
        content = path.read_bytes()
    except OSError as error:
        raise _refusal(path, f"a file that this process can read ({error.strerror})") from error
    if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) != _PRIVATE:
        raise _refusal(path, f"a file of this user with mode 0600, not {stat.S_IMODE(status.st_mode):04o}")
    try:
        require_format(content, FORMAT, what=f"{path}: a hand-over", where="for Airflow and for Spark")
        message = msgspec.json.decode(content, type=_Message)
        return HandOver(
            settings=message.settings,
            job=message.job.job(),
            attempt=message.attempt,
            batch=message.batch,
            publishes=message.publishes,
        )
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _refusal(path, f"a hand-over of this package ({_without_values(error)})") from None


def _refusal(path: Path, expected: str) -> EpochError:
    return InvalidInput(
        field=VARIABLE,
        value=str(path),
        expected=expected,
        next_step="let the operator start the program; without Airflow, unset the variable and pass settings.",
    )


def _without_values(error: Exception) -> str:
    """The problem and where it is; msgspec quotes no values, a decoding error quotes bytes."""
    return str(error) if isinstance(error, msgspec.MsgspecError) else type(error).__name__


class _Version(msgspec.Struct):
    format: int


def require_format(content: bytes, known: int, *, what: str, where: str) -> None:
    """Look at a message's format before its other fields, which another format need not have.

    :param what: the message, such as ``a handle``.
    :param where: what needs one version of the package, such as ``for Airflow and for Spark``.
    :raises StoreIncompatible: it was made by another version of the package.
    :raises msgspec.MsgspecError: it is no message at all.
    """
    found = msgspec.json.decode(content, type=_Version).format
    if found != known:
        raise StoreIncompatible(
            f"{what} of format {found}; this version of the package knows {known}.",
            next_step=f"install the same version of the package {where}.",
            expected=known,
            found=found,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Message:
    format: int
    settings: Settings
    job: JobDeclaration
    attempt: Attempt | None
    batch: Batch | None
    publishes: bool


def refuse_other(
    handed: HandOver, job: EpochJob | None, interval: ExplicitInterval | None, settings: Settings | None
) -> None:
    """Compare what a program says in arguments with what was handed over to it; None says nothing.

    :raises InvalidInput: they do not agree; names the argument.
    """
    if job is not None and encoded(as_job(job)) != encoded(handed.job):
        raise InvalidInput(
            field="job",
            value=job,
            expected=f"the declaration that the operator has: {handed.job}",
            next_step="import one declaration in the DAG and in the program, or leave job= out.",
        )
    given = handed.attempt.interval if handed.attempt else handed.batch.interval if handed.batch else None
    if interval and run_interval(handed.job.cadence, explicit=interval) != given:
        raise InvalidInput(
            field="interval",
            value=str(interval),
            expected=f"the interval handed over, {given}",
            next_step="leave interval= out under the operator.",
        )
    if settings is not None and _place(settings) != _place(handed.settings):
        raise InvalidInput(
            field="local",
            value=_place(settings),
            expected=f"what the operator's connection leads to, {_place(handed.settings)}",
            next_step="leave local= and settings= out under the operator: give them on the command line by hand.",
        )


def _place(settings: Settings) -> tuple[str, str]:
    """Where the store and the tables are, as it may be shown."""
    return redacted(settings.store_url), checked_warehouse(settings.warehouse)
