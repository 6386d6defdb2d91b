"""Begin within a restatement: the epoch is computed in private, and published with the other members (R28)."""

from __future__ import annotations

from typing import Unpack

from airflow_provider.coordination.attempts.begin import BeginOptions, request
from airflow_provider.coordination.context import Context
from airflow_provider.domain.epoch import AlreadyCommitted, AlreadyStaged, Attempt
from airflow_provider.domain.identifiers import RestatementId
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.topology import Job


def begin_within(
    context: Context,
    restatement: RestatementId,
    job: Job,
    interval: Interval,
    owner: Owner,
    *,
    copies: bool = False,
    **options: Unpack[BeginOptions],
) -> Attempt | AlreadyCommitted | AlreadyStaged:
    """Open an attempt at one epoch of *restatement*, which publishes it with the other members.

    It reads what members have staged in place of what is committed, and everything else as it is committed now. What
    is staged already stays, unless its inputs have changed since, or its task was cleared.

    :param copies: the caller copies the former rows of an epoch, which a revert brings back.
    :param options: as of :func:`begin`.
    :return: beside the answers of :func:`begin`: that it is staged.
    :raises UnknownName: no such restatement. :raises InvalidInput: it is over.
    :raises TopologyError: the epoch is no member, or lacks one of its job's tables.
    :raises NotReady: also where a member that it reads is not staged, or its own former rows are still to be copied.
        Others are those of :func:`begin`.
    """
    return request(context, job, interval, owner, **options, restatement=restatement, copies=copies).run()
