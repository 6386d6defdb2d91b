"""Entry points for the author of a Spark job: ``epoch_run`` for one epoch, ``epoch_runs`` for several in a row, and
``shared_epoch_run`` with ``epoch_participant`` for an epoch that several participants write.

.. code-block:: python

    with epoch_run() as epoch:
        epoch.write("flights_clean", clean(epoch.read("flights")))

Under the Airflow operator the job, the epoch and the store come from the launch spec. Elsewhere they are arguments: the
store by ``settings``, or by ``local``, a folder with a SQLite file and tables.
"""

from __future__ import annotations

import getpass
import logging
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING

from uuid6 import uuid7

from airflow_provider.coordination.attempts.rerun import refuse_reruns
from airflow_provider.coordination.restating.members import member_epochs
from airflow_provider.coordination.service import EpochService, Settings
from airflow_provider.domain.epoch import AlreadyCommitted, AlreadyStaged, Attempt
from airflow_provider.domain.errors import InvalidInput, StoreIncompatible, choice
from airflow_provider.domain.identifiers import RestatementId, restatement_id
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner, as_owner
from airflow_provider.domain.schedule import ExplicitInterval, run_interval
from airflow_provider.domain.together import CommitMode, refuse_together
from airflow_provider.domain.topology import Job, as_job
from airflow_provider.sources.readers import SourceReaders
from airflow_provider.spark import launch_spec, refusals, session
from airflow_provider.spark.attempt_run import EpochRun
from airflow_provider.spark.computed import computed
from airflow_provider.spark.handles import handle_of
from airflow_provider.spark.launch_spec import Batch, LaunchSpec
from airflow_provider.spark.shared_run import ParticipantRun, SharedRun, begin_shared, participate
from airflow_provider.spark.together import MemberRun, abandon_all, each_and_publish
from airflow_provider.stores.base import StoreCapability
from airflow_provider.stores.factory import redacted
from airflow_provider.tables.capabilities import TableCapability

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_run_here: set[tuple[str, str, Interval, int, str]] = set()
"""Attempts that this process has run: an attempt that was handed over serves one block."""


@contextmanager
def epoch_run(
    job: Job | None = None,
    interval: ExplicitInterval | None = None,
    *,
    local: str | PathLike[str] | None = None,
    settings: Settings | None = None,
    spark: SparkSession | None = None,
    owner: Owner | None = None,
    restatement: str | None = None,
) -> Iterator[EpochRun]:
    """Compute one epoch.

    :param job: the declaration. :param interval: the epoch, or its start as text, such as ``2024-05-01``.
    :param local: a folder that holds the store, a SQLite file, and the tables: for work on one host without
        Airflow (:meth:`Settings.local`). :param settings: addresses of store and tables, instead of *local*.
        Under the operator all of these are handed over; arguments that are given, too, must agree.
    :param spark: the session; by default the running one, else a new one.
    :param owner: the run that computes the epoch; by default this user with a new ``run_id``, which never takes over
        another run's live attempt. Pass an owner with a lasting ``run_id`` from a program that is retried.
    :param restatement: compute the committed epoch again within it: the block's end stages it.
    :raises InvalidInput: an argument is missing, cannot be read, or does not agree; names it. Nothing is written.
    :raises AlreadyComputed: the same generation of *owner* committed it; ``epoch_runs`` skips such epochs instead.
    :raises NotReady: inputs have not reached the barrier. :raises EpochBusy: another run computes it.
    """
    order = _order(job, interval, owner, _place(local, settings), restatement)
    with _opened(order, spark) as service:
        attempt = order.attempt or _begin(service, order, _only_epoch(order))
        if not isinstance(attempt, Attempt):
            raise computed(attempt, order.job, service)
        with _run(service, order, attempt, spark) as run:
            yield run


def epoch_runs(
    job: Job | None = None,
    interval: ExplicitInterval | None = None,
    *,
    local: str | PathLike[str] | None = None,
    settings: Settings | None = None,
    spark: SparkSession | None = None,
    owner: Owner | None = None,
    commit: CommitMode | str = CommitMode.EACH,
    restatement: str | None = None,
) -> Iterator[EpochRun]:
    """Compute the epochs that fill *interval*, in their order.

    Use each in a block of its own: ``for epoch in epoch_runs(): with epoch: …``. Committed epochs are left out, and
    the complete output of an earlier attempt is published without being computed again. If some of the epochs are
    committed and may not be computed again, all are refused before the first begins.

    :param commit: ``each`` epoch begins and publishes by itself; or all begin first, and become visible ``together``
        after the last block, in one commit. Then a failure publishes none, and a retry computes only those that are
        not complete. At most 100 epochs, of a job that does not read its own output.
    :param restatement: compute those epochs that are its members, and stage them: the restatement publishes them, so
        that *commit* does not apply. Staged members are left out, unless what they have read has changed.
    Other parameters and errors are those of :func:`epoch_run`.
    """
    mode = choice(CommitMode, commit, "commit")
    order = _order(job, interval, owner, _place(local, settings), restatement)
    with _opened(order, spark) as service:
        if (within := _within(order)) is not None:
            asked = _epochs(order)
            members = member_epochs(service.store, order.job, asked, within)
            if not members:
                span = f"{asked[0].start.isoformat()} to {asked[-1].end.isoformat()}"
                log.warning(
                    "%s: no epoch from %s is a member of restatement %s", order.job.name, span, within
                )
            for epoch in members:
                yield from _offered(service, order, epoch, spark)
            return
        if mode is CommitMode.TOGETHER:
            yield from each_and_publish(service, _members(service, order, _epochs(order), spark))
            return
        if order.attempt is not None:
            yield from _run(service, order, order.attempt, spark).offered()
            return
        epochs = _epochs(order)
        refuse_reruns(service.store, order.job, epochs, _owner_of(order), service.defaults)
        for epoch in epochs:
            yield from _offered(service, order, epoch, spark)


def _offered(
    service: EpochService, order: LaunchSpec, epoch: Interval, spark: SparkSession | None
) -> Iterator[EpochRun]:
    """Begin *epoch* and yield its run; yield nothing where it is committed, staged or complete already."""
    attempt = _begin(service, order, epoch)
    if isinstance(attempt, AlreadyCommitted):
        log.info("%s %s is committed at CSN %d", attempt.job, epoch, attempt.csn)
    elif isinstance(attempt, AlreadyStaged):
        log.info("staged already: %s", attempt)
    elif not attempt.adopted:
        yield from _run(service, order, attempt, spark).offered()
    elif attempt.restatement is not None:
        log.info("staged, computed by an earlier attempt: %s", service.stage(attempt))
    else:
        published = service.publish(attempt)
        log.info("Published at CSN %d: %s, computed by an earlier attempt", published.csn, attempt)


def together_runs(
    job: Job, epochs: Sequence[Interval], *, settings: Settings, spark: SparkSession, owner: Owner
) -> Iterator[EpochRun]:
    """Compute *epochs*, between which others may lie, and publish them by one commit: see :func:`epoch_runs`."""
    batch = Batch(interval=Interval(epochs[0].start, epochs[-1].end), owner=owner)
    order = LaunchSpec(settings=settings, job=job, batch=batch)
    with _opened(order, spark) as service:
        yield from each_and_publish(service, _members(service, order, epochs, spark))


def _members(
    service: EpochService, order: LaunchSpec, epochs: Sequence[Interval], spark: SparkSession | None
) -> list[MemberRun]:
    """Begin *epochs* of *order*; return the runs of those that are not committed.

    All begin before any is computed: an epoch that is not ready, or busy, ends the try before Spark works.
    """
    if order.batch is None or not order.publishes:
        raise refusals.handed_over_together()
    refuse_together(order.job, epochs)
    refuse_reruns(service.store, order.job, epochs, _owner_of(order), service.defaults)
    runs: list[MemberRun] = []
    try:
        for epoch in epochs:
            answer = _begin(service, order, epoch)
            if isinstance(answer, AlreadyCommitted):
                log.info("%s %s is committed at CSN %d", answer.job, answer.interval, answer.csn)
            elif isinstance(answer, Attempt):
                runs.append(MemberRun(service, order.job, answer, spark=spark, publishes=False))
    except Exception as error:
        # Nothing is computed yet: other runs need not wait until the locks of those that have begun end.
        abandon_all((run, error) for run in runs if not run.attempt.adopted)
        raise
    return runs


@contextmanager
def shared_epoch_run(
    job: Job,
    interval: ExplicitInterval,
    *,
    participants: int,
    local: str | PathLike[str] | None = None,
    settings: Settings | None = None,
    spark: SparkSession | None = None,
    owner: Owner | None = None,
    restatement: str | None = None,
) -> Iterator[SharedRun]:
    """Compute one epoch that several participants write, each a part of every output; all is published together.

    .. code-block:: python

        with shared_epoch_run(job, "2024-05-01", participants=4, local=FOLDER) as epoch:
            with ProcessPoolExecutor(4) as pool:
                list(pool.map(write_part, epoch.handles))

    The end of the block checks and publishes; an exception, or a participant that has not written, aborts it.
    A participant that failed may be run again within the block: that fences its own earlier tries, and no others.

    :param participants: number of participants, 1 to 1000. :param spark: session for the job's SQL checks, if any.
    :param restatement: as for :func:`epoch_run`.
    Other parameters and errors are those of :func:`epoch_run`; no operator hands anything over to this function.
    :raises NotReady: the block ended before all participants have written.
    """
    job = as_job(job)
    place = _given_place(local, settings)
    order = _by_arguments(job, interval, owner, place, restatement)
    with _service(place, spark) as service:
        service.formats.require(job.outputs, TableCapability.SHARED_FILES)
        begin = partial(begin_shared, participants=participants, lock_ttl=service.defaults.lock_ttl)
        attempt = begin(service, job, _only_epoch(order), _owner_of(order), restatement=_within(order))
        if not isinstance(attempt, Attempt):
            raise computed(attempt, job, service)
        with SharedRun(service, job, attempt, spark=spark) as run:
            yield run


@contextmanager
def epoch_participant(
    job: Job,
    handle: str,
    *,
    local: str | PathLike[str] | None = None,
    settings: Settings | None = None,
    spark: SparkSession | None = None,
    owner: Owner | None = None,
) -> Iterator[ParticipantRun]:
    """Write one participant's part of an epoch that another program begins and ends; in any thread, process or host.

    .. code-block:: python

        def write_part(handle):
            with epoch_participant(job, handle, local=FOLDER) as epoch:
                share = f"pmod(hash(id), {epoch.participants}) = {epoch.participant}"
                epoch.write("flights_clean", clean(epoch.read("flights")).where(share))

    Every participant reads the same inputs and writes every output, if only with an empty DataFrame. A second call
    with the same handle begins this part again: the output of the earlier call is deleted, and its later reports are
    refused.

    :param job: the declaration with which the epoch was begun. :param handle: one of :attr:`SharedRun.handles`.
    :param local: as for :func:`epoch_run`, also *settings* and *spark*: each participant may have its own session.
    :param owner: owner of this try; by default the owner that began the epoch.
    :raises InvalidInput: *handle* is not of this job, or of another declaration of it.
    :raises AlreadyComputed: the epoch is published.
    :raises Fenced: the attempt is over, or a later try of this participant has begun.
    :raises Conflict: all participants have written, and their output is checked or complete.
    """
    job = as_job(job)
    part = handle_of(handle, job)
    with _service(_given_place(local, settings), spark) as service:
        run = participate(service, job, part, owner=owner, spark=spark)
        if isinstance(run, AlreadyCommitted | AlreadyStaged):
            raise computed(run, job, service)
        with run:
            yield run


def _given_place(local: str | PathLike[str] | None, settings: Settings | None) -> Settings:
    """Return the store that the arguments name.

    :raises InvalidInput: they name none, or two.
    """
    place = _place(local, settings)
    if place is None:
        raise InvalidInput(
            field="settings",
            value=None,
            expected="local= (a folder) or settings=",
            next_step="say where the store is: participants that run elsewhere reach it by themselves.",
        )
    return place


def _place(local: str | PathLike[str] | None, settings: Settings | None) -> Settings | None:
    """Return the store that the arguments name; None if they name none.

    :raises InvalidInput: both *local* and *settings* are given.
    """
    if local is None:
        return settings
    if settings is not None:
        raise InvalidInput(
            field="local",
            value=local,
            expected="either local= or settings=: each says where the store is",
            next_step="leave one of them out.",
        )
    return Settings.local(local)


def _order(
    job: Job | None,
    interval: ExplicitInterval | None,
    owner: Owner | None,
    settings: Settings | None,
    restatement: str | None = None,
) -> LaunchSpec:
    """Return the work to do: from the launch spec if there is one, otherwise from the arguments.

    :raises InvalidInput: no launch spec and arguments missing, or arguments that disagree with the launch spec.
    """
    handed = launch_spec.received()
    if handed is not None:
        launch_spec.refuse_other(handed, job, interval, settings, restatement)
        return handed
    if job is None or not interval or settings is None:
        given = {"job": job, "interval": interval or None, "settings": settings}
        missing = [name for name, value in given.items() if value is None]
        raise InvalidInput(
            f"epoch_run: {', '.join(missing)} missing, and nothing was handed over to this program.",
            next_step="pass job=, interval= and local= (a folder) or settings=, "
            "or let EpochSparkSubmitOperator start the program.",
            field=missing[0],
            value=None,
            expected="arguments, or a launch spec",
        )
    return _by_arguments(job, interval, owner, settings, restatement)


def _by_arguments(
    job: Job,
    interval: ExplicitInterval,
    owner: Owner | None,
    settings: Settings,
    restatement: str | None = None,
) -> LaunchSpec:
    whole = run_interval(as_job(job).cadence, explicit=interval)
    by_hand = Owner(dag_id=f"{getpass.getuser()}@{socket.gethostname()}", run_id=str(uuid7()))
    within = None if restatement is None else restatement_id(restatement)
    batch = Batch(interval=whole, owner=owner or by_hand, restatement=within)
    return LaunchSpec(settings=settings, job=job, batch=batch)


def _opened(order: LaunchSpec, spark: SparkSession | None) -> EpochService:
    if launch_spec.received() is not None:
        return EpochService.open(
            order.settings
        )  # the operator has checked the deploy mode before the launch spec
    return _service(order.settings, spark)


def _service(settings: Settings, spark: SparkSession | None) -> EpochService:
    """Open the store and the tables.

    :raises StoreIncompatible: the driver runs on another host than the submitter, and the store is for one host only.
    """
    if session.deploy_mode(spark) != session.CLUSTER:
        return EpochService.open(settings)
    try:
        return EpochService.open(settings, require=frozenset({StoreCapability.CLUSTER}))
    except StoreIncompatible as error:
        if StoreCapability.CLUSTER in error.missing:
            raise refusals.one_host(f"the store {redacted(settings.store_url)}") from error
        raise


def _epochs(order: LaunchSpec) -> list[Interval]:
    return order.job.cadence.split(order.batch.interval) if order.batch else []


def _within(order: LaunchSpec) -> RestatementId | None:
    return order.batch.restatement if order.batch else None


def _only_epoch(order: LaunchSpec) -> Interval:
    epochs = _epochs(order)
    if len(epochs) != 1:
        raise InvalidInput(
            field="interval",
            value=str(order.batch.interval) if order.batch else None,
            expected=f"one epoch of {order.job.name!r} ({order.job.cadence}), not {len(epochs)}",
            next_step="use `for epoch in epoch_runs(): with epoch: …` for several.",
        )
    return epochs[0]


def _owner_of(order: LaunchSpec) -> Owner:
    """Return the batch's owner with a new request id."""
    if order.batch is None:
        raise InvalidInput(field="launch spec", value="an attempt", expected="a batch")
    return replace(as_owner(order.batch.owner), request_id=str(uuid7()))


def _begin(
    service: EpochService, order: LaunchSpec, interval: Interval
) -> Attempt | AlreadyCommitted | AlreadyStaged:
    job, owner, sources = order.job, _owner_of(order), SourceReaders(service.connections)
    service.formats.require(job.outputs, TableCapability.SHARED_FILES)
    if (within := _within(order)) is not None:
        return service.begin_within(within, job, interval, owner, sources=sources)
    return service.begin(job, interval, owner, sources=sources)


def _run(service: EpochService, order: LaunchSpec, attempt: Attempt, spark: SparkSession | None) -> EpochRun:
    # A second block would write the same attempt again, after the first one has reported or published it.
    identity = (attempt.domain, attempt.job, attempt.interval, attempt.token, attempt.incarnation)
    if identity in _run_here:
        raise InvalidInput(
            f"{attempt}: this program has run it already.",
            next_step="run one block for each epoch that was handed over.",
            field="attempt",
            value=str(attempt),
            expected="an attempt that was not run",
        )
    _run_here.add(identity)
    return EpochRun(service, order.job, attempt, spark=spark, publishes=order.publishes)
