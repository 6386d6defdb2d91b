"""Launch spec from the submitter of a Spark program: the epoch, or the batch of epochs, and the settings of the store.

It travels in a file that only its owner may read, since it holds the store's password: the process's arguments,
Spark's settings and its UI show nothing of it. The environment variable :data:`VARIABLE` names the file; the program
reads it once, then removes it. On YARN in deploy mode ``cluster`` the variable holds the name of a file in the
container's folder: the file is YARN's to remove, and an application's second driver refuses it.
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
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.errors import EpochError, InvalidInput, StoreIncompatible
from airflow_provider.domain.identifiers import RestatementId
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.schedule import ExplicitInterval, run_interval
from airflow_provider.domain.topology import Job, as_job
from airflow_provider.stores.declarations import encoded
from airflow_provider.stores.factory import redacted
from airflow_provider.tables.locations import checked_warehouse

VARIABLE = "EPOCHS_LAUNCH_SPEC"
FORMAT = 3
_PRIVATE = 0o600
_OTHERS = 0o077
_CONTAINER = "CONTAINER_ID"
"""Set by YARN: ``container_e17_1700000000000_0001_02_000001`` runs in the application's second start."""
_PARTS = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """Epochs that one task computes one after the other; each is begun and published separately.

    :param restatement: compute those of them that are its members, and stage them; None to publish them.
    """

    interval: Interval
    owner: Owner
    restatement: RestatementId | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class LaunchSpec:
    """One task's work: an ``attempt`` that the submitter has begun, or a ``batch``.

    :param publishes: the program publishes; False: it ends at WRITTEN, and its submitter publishes.
    """

    settings: Settings
    job: Job
    attempt: Attempt | None = None
    batch: Batch | None = None
    publishes: bool = True

    def __post_init__(self) -> None:
        if (self.attempt is None) == (self.batch is None):
            raise InvalidInput(field="launch spec", value=None, expected="either an attempt or a batch")

    def write(self, directory: Path) -> Path:
        """Write the launch spec into a new file in *directory*, readable by this user alone; return its path.

        Set :data:`VARIABLE` to the path, and remove the file when the program has ended.
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
        path = directory / f"launch-spec-{os.getpid()}-{subject}-{os.urandom(8).hex()}.json"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE)
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.encode(message))
        return path


@lru_cache(maxsize=1)
def received() -> LaunchSpec | None:
    """Return this process's launch spec; None if the process was started by hand.

    The first call removes the file unless YARN has put it there; later calls return the same object.

    :raises InvalidInput: the file is missing, other users may read it, it holds no launch spec, or YARN has started
        the application before.
    :raises StoreIncompatible: another version of the package wrote it.
    """
    name = os.environ.get(VARIABLE)
    if name is None:
        return None
    path = Path(name)
    shipped = not path.is_absolute()
    if shipped:
        _refuse_second_driver()
    handed = _read(path, shipped=shipped)
    del os.environ[VARIABLE]
    if not shipped:
        path.unlink()
    return handed


def _refuse_second_driver() -> None:
    """Refuse to continue the attempt of a driver that may still run: both would write with one token.

    :raises InvalidInput: YARN has started the application before.
    """
    container = os.environ.get(_CONTAINER, "")
    start = container.split("_")[-2] if container.count("_") >= _PARTS else ""
    if not start.isdigit() or int(start) != 1:
        raise InvalidInput(
            field=_CONTAINER,
            value=container or None,
            expected="the first container of the application's first start: a later driver would share the token of "
            "one that may still run",
            next_step="let the task fail: its next try begins an attempt of its own.",
        )


def _read(path: Path, *, shipped: bool) -> LaunchSpec:
    try:
        status = path.stat()
        content = path.read_bytes()
    except OSError as error:
        raise _refusal(path, f"a file that this process can read ({error.strerror})") from error
    mode = stat.S_IMODE(status.st_mode)
    private = not mode & _OTHERS if shipped else mode == _PRIVATE  # YARN makes its copy 0500
    if status.st_uid != os.geteuid() or not private:
        expected = "that no other user may read" if shipped else "with mode 0600"
        raise _refusal(path, f"a file of this user {expected}, not {mode:04o}")
    try:
        require_format(content, FORMAT, what=f"{path}: a launch spec", where="for Airflow and for Spark")
        message = msgspec.json.decode(content, type=_Message)
        return LaunchSpec(
            settings=message.settings,
            job=message.job.job(),
            attempt=message.attempt,
            batch=message.batch,
            publishes=message.publishes,
        )
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _refusal(path, f"a launch spec of this package ({_without_values(error)})") from None


def _refusal(path: Path, expected: str) -> EpochError:
    return InvalidInput(
        field=VARIABLE,
        value=str(path),
        expected=expected,
        next_step="let the operator start the program; without Airflow, unset the variable and pass settings.",
    )


def _without_values(error: Exception) -> str:
    """Return the text of *error* without quoted content, which may hold a password.

    msgspec quotes no values; a decoding error quotes bytes, so that only its class is named.
    """
    return str(error) if isinstance(error, msgspec.MsgspecError) else type(error).__name__


class _Version(msgspec.Struct):
    format: int


def require_format(content: bytes, known: int, *, what: str, where: str) -> None:
    """Check a message's format number before its other fields are decoded: another format may lack them.

    :param what: the message, such as ``a handle``.
    :param where: where the same version of the package is needed, such as ``for Airflow and for Spark``.
    :raises StoreIncompatible: another version of the package made the message.
    :raises msgspec.MsgspecError: *content* is not a message with a format number.
    """
    found = msgspec.json.decode(content, type=_Version).format
    if found != known:
        raise StoreIncompatible(
            f"{what} of format {found}; this version of the package knows {known}.",
            next_step=f"install the same version of the package {where}.",
            expected=str(known),
            found=str(found),
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
    handed: LaunchSpec,
    job: Job | None,
    interval: ExplicitInterval | None,
    settings: Settings | None,
    restatement: str | None = None,
) -> None:
    """Compare a program's arguments with its launch spec; an argument that is None agrees with everything.

    :raises InvalidInput: an argument disagrees with the launch spec; names the argument.
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
    work = handed.attempt or handed.batch
    within = None if work is None else work.restatement
    if restatement is not None and restatement != within:
        raise InvalidInput(
            field="restatement",
            value=restatement,
            expected="what the run computes its epoch within, "
            + ("none: the run publishes it" if within is None else repr(within)),
            next_step="leave restatement= out under the operator, and name it in the configuration of the run: "
            '{"restatement": …}.',
        )


def _place(settings: Settings) -> tuple[str, str]:
    """Return the addresses of the store and of the tables, without the password."""
    return redacted(settings.store_url), checked_warehouse(settings.warehouse)
