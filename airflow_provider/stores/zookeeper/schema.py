"""Read, check, create and upgrade the layout under a chroot."""

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
    """Return the state of the layout. Read-only."""
    _, answer, names = session.ask(
        deadline, [lambda client: client.sync_async("/"), Get(paths.schema), children(paths.chroot)]
    )
    found = None if answer is None else answer[0].decode(errors="replace")
    return SchemaStatus.of(session.location, found, LAYOUTS, empty=not names)


def upgrade(session: Session, paths: Paths, deadline: Deadline) -> SchemaStatus:
    """Create the layout if there is none, or raise its version; several clients may do each step at the same time.

    :raises PackageTooOld: the layout is newer than this version of the package.
    """
    for _ in range(_TRIES):
        found = status(session, paths, deadline)
        if found.fit is Fit.CURRENT:
            return found
        if found.fit is Fit.NEWER:
            found.require_usable()
        if found.fit is Fit.UPGRADABLE:
            with suppress(ReplyLostError):  # the next look tells whether it was done
                session.change(deadline, [Operation("set_data", paths.schema, LAYOUTS[-1].encode())])
        else:
            _make(session, paths, deadline)
    return status(session, paths, deadline)


def new_incarnation(session: Session, paths: Paths, deadline: Deadline) -> str:
    """Give the store a new identity and return it; transactions decided under the previous one are refused from now on.

    :raises StoreUnavailable: the servers refuse the change.
    :raises OutcomeUnknown: no answer came; call again.
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
    """Create nodes, all or none. It is as good if another client has created them; after a lost reply, look again.

    :raises StoreUnavailable: the servers refuse the change.
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
