"""Decisions on the page: what every route that changes anything has in common.

Each is a POST of JSON from Airflow's own page, is allowed to users who may change runs of all DAGs concerned, and is
written to Airflow's audit log, also where it is refused. See docs/decisions/page-access.md.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any

from airflow.api_fastapi.common.db.common import SessionDep
from airflow.api_fastapi.core_api.security import GetUserDep
from airflow.api_fastapi.logging.decorators import action_logging
from fastapi import Body, Depends, HTTPException, Request

from airflow_provider.plugins.access import NotAllowed
from airflow_provider.plugins.grid.answers import Access
from airflow_provider.plugins.grid.questions import MAX_TEXT

log = logging.getLogger(__name__)
_MAX_REASON = 2_000
_LISTED = 20

Reason = Annotated[str, Body(max_length=_MAX_REASON, embed=True)]
Text = Annotated[str, Body(max_length=MAX_TEXT, embed=True)]


@dataclass(frozen=True, slots=True)
class Deciding:
    """A user who decides, and the domain of the decision."""

    domain: str
    conn_id: str | None
    user: Any

    @property
    def by(self) -> str:
        """Name of the user, as records and logs have it."""
        name: str = self.user.get_name()
        return name


def _deciding(
    user: GetUserDep,
    domain: Annotated[str, Body(max_length=MAX_TEXT)] = "default",
    conn_id: Annotated[str | None, Body(max_length=MAX_TEXT)] = None,
) -> Deciding:
    return Deciding(domain, conn_id, user)


Decided = Annotated[Deciding, Depends(_deciding)]


def same_site(request: Request) -> None:
    """Refuse a request that the page of another site may have made.

    The cookie of a login comes with requests that other sites make; see docs/decisions/page-access.md.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(415, "send the decision as application/json.")
    if request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
        raise HTTPException(403, "a decision is made on Airflow's own page, not on that of another site.")


async def _kept(session: SessionDep) -> None:
    """Keep the entry of Airflow's audit log, which Airflow 3.1 takes back where the decision is refused."""
    session.commit()


def audited(event: str) -> list[Any]:
    """Return the dependencies of a route that decides. :param event: its name in Airflow's audit log."""
    return [Depends(same_site), Depends(action_logging(event=f"epochs_{event}")), Depends(_kept)]


@contextmanager
def told(what: str, subject: str, decision: Deciding) -> Iterator[None]:
    """Write the decision, and that it is done, to the server's log."""
    extra = {"domain": decision.domain, "subject": subject, "decision": what, "user": decision.by}
    log.info("%s: %s decides to %s it", subject, decision.by, what, extra=extra)
    yield
    log.info("%s: %s is done", subject, what, extra=extra)


def missing_dags(dags: Collection[str], access: Access) -> tuple[set[str], bool]:
    """Return those of *dags* whose runs the user may not change, and whether the permission on all DAGs is missing.

    That one is asked for where no DAG is concerned, since none has worked on what is decided about.
    """
    return {dag for dag in dags if not access.may_change_runs(dag)}, not dags and not access.may_change_runs(
        None
    )


def may_decide(dags: Collection[str], access: Access) -> dict[str, Any]:
    """Return for an answer whether the user may decide, and the missing DAGs that the user may read."""
    missing, every = missing_dags(dags, access)
    return {"may_decide": not missing and not every, "needs": sorted(filter(access.may_read, missing))}


def refuse_undecidable(subject: str, dags: Collection[str], access: Access) -> None:
    """Refuse a decision on *subject*. :param dags: all that are concerned.

    :raises NotAllowed: the user may not change runs of one of *dags*.
    """
    missing, every = missing_dags(dags, access)
    if not missing and not every:
        return
    named = tuple(sorted(filter(access.may_read, missing)))
    words = [*map(repr, named[:_LISTED])]
    left = len(missing) - len(named) + max(0, len(named) - _LISTED)
    if left:
        words.append(
            f"{left} more" if words else f"{left} DAG{'' if left == 1 else 's'} that you may not read"
        )
    if every:
        words = ["all DAGs, which is asked for where none has worked on it"]
    raise NotAllowed(
        f"{subject} is decided on by users who may change runs of all DAGs that worked on it; "
        f"you may not change those of {', '.join(words)}.",
        next_step="ask a user who may, or an administrator of Airflow for the permission to edit these DAGs' runs.",
        dags=named,
    )
