"""Owners: who wants an epoch computed (protocol section 5)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from airflow_provider.domain.error_families import InvalidInput
from airflow_provider.domain.format_marks import since
from airflow_provider.domain.identifiers import validate_identity

_DAG_ID = re.compile(r"[\w.-]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Owner:
    """The task or program that wants an epoch computed.

    :param dag_id: the DAG, or the name of a program outside Airflow, which may have characters that no DAG id has.
    :param run_id: the run; the same (dag_id, run_id) supersedes its own earlier attempts at once.
    :param generation: number of clearings of this task; a higher one asks for a new revision.
    :param try_number: number of the try within one generation.
    :param max_tries, clear_number: of the task, and of its run, in Airflow; None outside of it.
    :param request_id: unique id of one call of begin, which sets it: a repeated call finds the attempt whose reply was
        lost.
    """

    dag_id: str
    run_id: str
    generation: int = 0
    try_number: int = 1
    request_id: str = ""
    max_tries: int | None = field(default=None, metadata=since(2, optional=True))
    clear_number: int | None = field(default=None, metadata=since(2, optional=True))

    @property
    def names_dag(self) -> bool:
        """True if a DAG, and no person, program or restatement, is the owner: see :func:`names_dag`."""
        return names_dag(self.dag_id)

    @property
    def order(self) -> tuple[int, int]:
        """Sort key of the attempts of one run; of equal ones the later begin wins."""
        return self.generation, self.try_number

    def same_run(self, other: Owner) -> bool:
        return (self.dag_id, self.run_id) == (other.dag_id, other.run_id)

    def same_generation(self, other: Owner) -> bool:
        """Return True if both are tries of one generation of one run.

        A generation is counted by the retries that the author grants now. Where these were changed between a clearing
        and its run, only ``max_tries`` and the run's count of clearings tell it from a retry: both have changed.
        """
        if not self.same_run(other) or self.generation != other.generation:
            return False
        mine, theirs = (self.max_tries, self.clear_number), (other.max_tries, other.clear_number)
        if None in mine or None in theirs:
            return True
        return any(own == others for own, others in zip(mine, theirs, strict=True))

    def same_call(self, other: Owner) -> bool:
        """Return True if both are of one call of begin, which was repeated."""
        return self.same_run(other) and (self.order, self.request_id) == (other.order, other.request_id)

    def clears(self, other: Owner) -> bool:
        """Return True if this is a newer generation of the run of *other*."""
        return self.same_run(other) and not self.same_generation(other) and self.order > other.order

    def __str__(self) -> str:
        return f"{self.dag_id}/{self.run_id} (generation {self.generation}, try {self.try_number})"


def names_dag(owner: str) -> bool:
    """Return True if Airflow allows the characters of *owner* in a DAG id.

    False for the USER@HOST of a program that was started by hand, and for the author of a skip, a revert or a copy.
    """
    return _DAG_ID.fullmatch(owner) is not None


def as_owner(value: object) -> Owner:
    """Return *value*, an :class:`Owner` that can be stored and compared.

    :raises InvalidInput: not an :class:`Owner`, a blank text, or a number out of range.
    """
    if not isinstance(value, Owner):
        raise InvalidInput(
            field="owner",
            value=value,
            expected="an Owner",
            next_step="say who asks: Owner(dag_id='my program', run_id='of 2024-05-01').",
        )
    texts = {"dag_id": value.dag_id, "run_id": value.run_id}
    validate_identity(texts, {"generation": value.generation, "try_number": value.try_number})
    return value
