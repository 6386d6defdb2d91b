"""What a domain knows of itself: how often its jobs changed, where it is moved to or from, where its files are, and
which of its epochs stand behind their source.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from airflow_provider.domain.behind import Behind
from airflow_provider.domain.record_format import since
from airflow_provider.domain.staying import Stayed


class MoveState(StrEnum):
    """How far a domain's move between two stores is, as one of them sees it."""

    LEAVING = "leaving"
    GONE = "gone"
    ARRIVING = "arriving"
    ARRIVED = "arrived"


@dataclass(frozen=True, kw_only=True, slots=True)
class Move:
    """A domain's move between two stores.

    :param place: address of the other store, without a password. :param incarnation: of the other store.
    """

    state: MoveState
    place: str
    incarnation: str


@dataclass(frozen=True, kw_only=True, slots=True)
class TopologyRecord:
    """Changes whenever a job is registered anew: whoever decides on the topology requires its version.

    :param move: of the whole domain, from here or to here.
    :param warehouse: where the files of its tables are; empty where an older store does not say.
    :param behind: epochs that stand on an older revision of a source than the one bound since, and some that did.
    :param binds: how often a source was bound anew with epochs behind it.
    :param stayed: rows of an earlier revision of their epochs than the job's other tables have. A store of an older
        format has none, and its cuts carry no such label, as those of the versions of the package that share it.
    """

    generation: int
    move: Move | None = None
    warehouse: str = field(default="", metadata=since(2, optional=True))
    behind: tuple[Behind, ...] = field(default=(), metadata=since(2))
    binds: int = field(default=0, metadata=since(2))
    stayed: tuple[Stayed, ...] = field(default=(), metadata=since(2, optional=True))
