"""Change set within which an epoch is to begin: what readiness asks of it (R28, R40)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from airflow_provider.coordination.commits.staged import Members, restatement_of
from airflow_provider.domain.epoch import EpochRecord
from airflow_provider.domain.identifiers import DomainName, JobName, RestatementId, restatement_id
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.missing import Missing
from airflow_provider.domain.records import Stamped, restatement_key, topology_key
from airflow_provider.domain.restatement import RestatementRecord, held, is_over
from airflow_provider.stores.base import MetadataReader, Reading


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangeSet:
    """The restatement, or the barrier of a group, within which an epoch is to begin, as the store has it.

    :param name: None for an epoch that its own run publishes. :param record: None for a barrier of a group that none
        of its jobs has opened yet. :param is_over: nothing begins within it any more.
    :param is_ending: and its attempts have not all ended.
    """

    reader: MetadataReader
    domain: DomainName
    name: RestatementId | None
    record: RestatementRecord | None
    is_over: bool = False
    is_ending: bool = False

    @classmethod
    def of(cls, reader: MetadataReader, domain: DomainName, restatement: str | None) -> ChangeSet:
        """Read the change set of the name *restatement*; None for an epoch that is published by itself."""
        if restatement is None:
            return cls(reader=reader, domain=domain, name=None, record=None)
        name = restatement_id(restatement)
        own, topology = restatement_key(domain, name), topology_key(domain)
        reading = reader.read(domain, [own, topology])
        stamped, known = reading.get(own), reading.get(topology)
        record = None if stamped is None else stamped.record
        over = record is not None and is_over(record, incarnation=reading.head.incarnation, now=reading.now)
        is_ending = over and known is not None and name in known.record.restating
        return cls(reader=reader, domain=domain, name=name, record=record, is_over=over, is_ending=is_ending)

    @property
    def is_group(self) -> bool:
        """Return True for the barrier of a group: a restatement has its record from its opening on."""
        return self.name is not None and (self.record is None or self.record.is_group)

    @property
    def members(self) -> Members | None:
        """Return the members within which the epoch begins; None where none of its group has begun, or it is over.

        What waits for members of a restatement that is over would wait for ever: its task asks anew.
        """
        if self.name is None or self.record is None or self.is_over:
            return None
        return Members(reader=self.reader, domain=self.domain, name=self.name, record=self.record)

    def holding(
        self, reading: Reading, job: JobName, stamped: Stamped[EpochRecord] | None
    ) -> Iterator[Missing]:
        """Yield what keeps the epoch busy while another restatement holds it, or the group of its job.

        The group that its job has left does not: the next attempt takes the epoch over, as ``Within.without_others``
        says. A job has left it if it begins within no change set, or within the barrier of another group.
        """
        attempt = None if stamped is None else stamped.record.attempt
        name = None if attempt is None else attempt.restated_by
        if stamped is None or name is None or name == self.name:
            return
        record = restatement_of(self.reader, self.domain, name).record
        has_left = record.is_group and (self.name is None or self.is_group)
        if not has_left and not is_over(record, incarnation=reading.head.incarnation, now=reading.now):
            error = held(job, stamped.record.interval, name)
            yield Missing(name=f"epoch of {job}", wanted=stamped.record.interval.end, reason=error.message)

    def ending(self, epoch: str, interval: Interval) -> Iterator[Missing]:
        """Yield what keeps a barrier of a group from being opened anew: it was abandoned, and that has not ended."""
        if self.is_group and self.is_ending:
            reason = f"{self.name!r} has ended without a commit, and its attempts have not all ended"
            yield Missing(name=epoch, wanted=interval.end, reason=reason)
