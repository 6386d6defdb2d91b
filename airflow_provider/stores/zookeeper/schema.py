"""The version of the layout: which one a chroot has, whether it fits, and how the first one is made."""

from __future__ import annotations

import uuid
from contextlib import suppress

from kazoo.exceptions import KazooException, NodeExistsError

from airflow_provider.domain.errors import OutcomeUnknown, StoreUnavailable
from airflow_provider.stores.schema_status import Fit, SchemaStatus
from airflow_provider.stores.zookeeper.paths import Paths
from airflow_provider.stores.zookeeper.records import children
from airflow_provider.stores.zookeeper.session import Deadline, Get, Operation, ReplyLostError, Session

LAYOUTS = ("1", "2")
"""Every version of the layout, oldest first: each came with the next record format, from 1 on."""
_TRIES = 5


def status(session: Session, paths: Paths, deadline: Deadline) -> SchemaStatus:
    """Look at the layout; changes nothing."""
    _, answer, names = session.ask(
        deadline, [lambda client: client.sync_async("/"), Get(paths.schema), children(paths.chroot)]
    )
    found = None if answer is None else answer[0].decode(errors="replace")
    return SchemaStatus.of(session.location, found, LAYOUTS, empty=not names)


def upgrade(session: Session, paths: Paths, deadline: Deadline) -> SchemaStatus:
    """Make the layout where there is none, or raise its version; each step may be done by several at once.

    :raises PackageTooOld: it is newer than this version of the package.
    """
    for _ in range(_TRIES):
        found = status(session, paths, deadline)
        if found.fit is Fit.CURRENT:
            return found
        if found.fit is Fit.NEWER:
            found.require_usable()
        if found.fit is Fit.UPGRADABLE:
            with suppress(ReplyLostError):  # the next look tells
                session.change(deadline, [Operation("set_data", paths.schema, LAYOUTS[-1].encode())])
        else:
            _make(session, paths, deadline)
    return status(session, paths, deadline)


def new_incarnation(session: Session, paths: Paths, deadline: Deadline) -> str:
    """Give the store another identity; whoever decided under the one before is refused from then on.

    :raises StoreUnavailable: the servers refuse to. :raises OutcomeUnknown: no answer came.
    """
    new = uuid.uuid4().hex
    try:
        answers = session.change(deadline, [Operation("set_data", paths.incarnation, new.encode())])
    except ReplyLostError as error:
        raise OutcomeUnknown(
            f"{session.location}: no answer came: {error}.",
            next_step="do it again: a second new identity does no harm.",
        ) from error
    if isinstance(answers[0], KazooException):
        raise StoreUnavailable(
            f"{session.location}: {type(answers[0]).__name__}.",
            next_step="look into the servers' logs.",
            store=session.location,
        )
    return new


def _make(session: Session, paths: Paths, deadline: Deadline) -> None:
    parts = paths.chroot.strip("/").split("/")
    for depth in range(len(parts)):
        folder = "/" + "/".join(parts[: depth + 1])
        (there,) = session.ask(deadline, [lambda client, path=folder: client.exists_async(path)])  # type: ignore[misc]
        if there is None:
            _create(session, deadline, [Operation("create", folder)])
    _create(
        session,
        deadline,
        [
            Operation("create", paths.schema, LAYOUTS[-1].encode()),
            Operation("create", paths.incarnation, uuid.uuid4().hex.encode()),
            Operation("create", paths.clock),
            Operation("create", paths.domains),
        ],
    )


def _create(session: Session, deadline: Deadline, operations: list[Operation]) -> None:
    """Create nodes, all or none; that others did meanwhile is as good. A lost reply is looked after by the caller.

    :raises StoreUnavailable: the servers refuse to.
    """
    try:
        answers = session.change(deadline, operations)
    except ReplyLostError:
        return
    failed = [answer for answer in answers if isinstance(answer, KazooException)]
    if failed and not any(isinstance(answer, NodeExistsError) for answer in failed):
        raise StoreUnavailable(
            f"{session.location}: {type(failed[0]).__name__}.",
            next_step="look into the servers' logs.",
            store=session.location,
        )
