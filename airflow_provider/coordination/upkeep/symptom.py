"""Findings of the doctor: :func:`~airflow_provider.coordination.upkeep.doctor.examine`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from airflow_provider.domain.identifiers import DomainName


@dataclass(frozen=True, kw_only=True, slots=True)
class Symptom:
    """A defect, or a condition that the next vacuum or publish ends.

    :param subject: the table, job, epoch or file concerned. :param next_step: command to type, or that none is needed.
    :param urgent: an operator has to act; otherwise the next vacuum or publish does.
    """

    subject: str
    found: str
    next_step: str
    urgent: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Examination:
    """Answer of :func:`~airflow_provider.coordination.upkeep.doctor.examine`.

    :param csn: the domain's head. :param incarnation: of the store. :param at: the store's time.
    """

    domain: DomainName
    csn: int
    incarnation: str
    at: datetime
    symptoms: tuple[Symptom, ...]

    @property
    def urgent(self) -> tuple[Symptom, ...]:
        return tuple(symptom for symptom in self.symptoms if symptom.urgent)
