"""The record of a domain: its generation, a move between stores, its places, and its epochs behind their source."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum

from airflow_provider.domain.behind import Behind
from airflow_provider.domain.dropping import DroppedTable, Dropping
from airflow_provider.domain.format_marks import since
from airflow_provider.domain.identifiers import JobName, RestatementId
from airflow_provider.domain.rollback import Rollback
from airflow_provider.domain.staying import Stayed


class MoveState(StrEnum):
    """Progress of a domain's move between two stores, as one of them sees it."""

    LEAVING = "leaving"
    GONE = "gone"
    ARRIVING = "arriving"
    ARRIVED = "arrived"


@dataclass(frozen=True, kw_only=True, slots=True)
class Move:
    """A domain's move between two stores.

    :param place: address of the other store, without a password. :param incarnation: of the other store.
    :param seal: id of the process that has sealed the domain last; empty in the records of older versions.
    """

    state: MoveState
    place: str
    incarnation: str
    seal: str = field(default="", compare=False, metadata=since(2, optional=True))

    def goes_on(self, begun: Move | None) -> bool:
        """Return whether this is the move *begun*, also by a store that was restored, promoted or made anew since."""
        return (
            begun is not None
            and begun.state is self.state
            and (begun.incarnation == self.incarnation or begun.place == self.place)
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class TopologyRecord:
    """The record of a domain. A transaction that decides on the topology requires its version.

    :param generation: counter of registrations, retirements and moves; each of them writes this record.
    :param move: move of the whole domain, from this store or to it.
    :param warehouse: location of the files of its tables; empty in the records of older versions.
    :param catalog: address of the catalog of its tables, without a user; empty in the records of older versions.
    :param behind: epochs computed from an older revision of a source than the one bound since, and some that were.
    :param binds: number of times that a source was bound anew with epochs behind it.
    :param stayed: rows of an earlier revision of their epochs than the rows of the job's other tables. A store of an
        older format has none: its cuts carry no such label, like those of the older versions that share the store.
    :param restating: restatements that are neither published nor abandoned.
    :param released: jobs with epochs that were released from a published restatement: their rows may carry a label.
    :param dropping: the drop whose records are still being deleted. :param dropped: tables that were dropped.
    :param tokens: tokens up to this one were given out to jobs that were dropped: first attempts get higher ones.
    :param rollbacks: rollbacks of the domain, oldest first: sessions that have seen what they took back are told.
    """

    generation: int
    move: Move | None = None
    warehouse: str = field(default="", metadata=since(2, optional=True))
    catalog: str = field(default="", metadata=since(2, optional=True))
    behind: tuple[Behind, ...] = field(default=(), metadata=since(2))
    binds: int = field(default=0, metadata=since(2))
    stayed: tuple[Stayed, ...] = field(default=(), metadata=since(2, optional=True))
    restating: tuple[RestatementId, ...] = field(default=(), metadata=since(2))
    released: tuple[JobName, ...] = field(default=(), metadata=since(2))
    dropping: Dropping | None = field(default=None, metadata=since(2))
    dropped: tuple[DroppedTable, ...] = field(default=(), metadata=since(2))
    tokens: int = field(default=0, metadata=since(2))
    rollbacks: tuple[Rollback, ...] = field(default=(), metadata=since(2))

    def without(self, restatement: RestatementId, released: Iterable[JobName] = ()) -> TopologyRecord:
        """Return the record once *restatement* has ended.

        :param released: jobs with epochs that it was published over.
        """
        return replace(
            self,
            restating=tuple(name for name in self.restating if name != restatement),
            released=tuple(sorted({*self.released, *released})),
        )

    def without_jobs(self, jobs: Collection[JobName]) -> TopologyRecord:
        """Return the record without the labels of rows that *jobs* have computed."""
        return replace(
            self,
            behind=tuple(entry for entry in self.behind if entry.job not in jobs),
            stayed=tuple(entry for entry in self.stayed if entry.job not in jobs),
            released=tuple(name for name in self.released if name not in jobs),
        )
