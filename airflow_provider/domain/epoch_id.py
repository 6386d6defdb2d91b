"""Names of an epoch, of its revisions and of its attempts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_provider.domain.identifiers import ChangeSetId, DomainName, JobName
from airflow_provider.domain.interval import Interval, time_key


@dataclass(frozen=True, slots=True)
class EpochId:
    """Name of an epoch. An attempt, and an answer about one, is a value of a subclass.

    Classes instead of a field: what users see, and what goes to another process, has the names beside its other fields.
    Values of two classes are never equal.
    """

    domain: DomainName
    job: JobName
    interval: Interval

    def __str__(self) -> str:
        """Return the name as logs have it; a revision and an attempt add what follows."""
        return f"{self.domain}/{self.job} {self.interval}"


@dataclass(frozen=True, slots=True)
class RevisionId(EpochId):
    """Name of a revision of an epoch."""

    revision: int

    @property
    def change_set(self) -> ChangeSetId:
        """Id of the change set of a single epoch: the same for every attempt at the revision."""
        start, end = time_key(self.interval.start), time_key(self.interval.end)
        return ChangeSetId(f"{self.job}@{start}-{end}#r{self.revision}")

    def __str__(self) -> str:
        return f"{EpochId.__str__(self)} revision {self.revision}"


def change_set_of(revisions: Sequence[RevisionId]) -> ChangeSetId:
    """Return the id of the change set that publishes *revisions*, the first of which is in no other one."""
    more = len(revisions) - 1
    return ChangeSetId(f"{revisions[0].change_set}+{more}") if more else revisions[0].change_set


@dataclass(frozen=True, slots=True)
class AttemptId(RevisionId):
    """Name of an attempt at a revision, in one incarnation of the store."""

    token: int

    def __str__(self) -> str:
        return f"{RevisionId.__str__(self)} token {self.token}"
