"""An attempt's way through the protocol: register, begin, processed, written, publish, abort, heartbeat.

Every method is idempotent by what it is asked (R15): a repetition answers as the first call did.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from random import Random, SystemRandom
from typing import TypeVar

from airflow_provider.coordination.attempts.begin import Begin
from airflow_provider.coordination.attempts.bounds import RootSource, as_source
from airflow_provider.coordination.attempts.check import Checking, Query
from airflow_provider.coordination.attempts.end import End
from airflow_provider.coordination.attempts.join import join, newer_try, refuse_alone, tries, whole
from airflow_provider.coordination.attempts.publish import Publish
from airflow_provider.coordination.attempts.renew import renew
from airflow_provider.coordination.attempts.report import completion, entry, report
from airflow_provider.coordination.commits.alter import written_columns
from airflow_provider.coordination.commits.declare import registering
from airflow_provider.coordination.retrying import settled
from airflow_provider.coordination.upkeep.retire import retire, revive
from airflow_provider.coordination.upkeep.skip import Skipped, give_back, skip
from airflow_provider.domain.clock import Clock, SystemClock
from airflow_provider.domain.cut import State, state_of
from airflow_provider.domain.defaults import DEFAULTS, Defaults
from airflow_provider.domain.epoch import (
    AlreadyCommitted,
    Attempt,
    BarrierRecord,
    EpochRecord,
    EpochState,
    Owner,
    Published,
    as_owner,
)
from airflow_provider.domain.errors import UnknownName
from airflow_provider.domain.identifiers import DomainName, JobName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import (
    Kind,
    Stamped,
    barrier_partition,
    epoch_key,
    schema_key,
    table_key,
)
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.roots import RootBounds
from airflow_provider.domain.topology import EpochJob
from airflow_provider.domain.version import Committable
from airflow_provider.stores.base import (
    MetadataStore,
)
from airflow_provider.tables.base import Place, TableInfo
from airflow_provider.tables.factory import TableFormats

Answer = TypeVar("Answer")

_CROWDED_S = 1.0


class Coordinator:
    """All changes of the protocol, on any store and any table format.

    :param clock: for waiting only; what expires is judged by the store's time.
    :param random: for pauses between tries and ids of requests; by default the system's, which forks do not share.
    """

    def __init__(
        self,
        store: MetadataStore,
        formats: TableFormats,
        *,
        clock: Clock | None = None,
        random: Random | None = None,
        defaults: Defaults = DEFAULTS,
    ) -> None:
        self.store = store
        self.formats = formats
        self.clock = clock or SystemClock()
        self.random = random or SystemRandom()
        self.defaults = defaults
        self._crowded_until: dict[DomainName, float] = {}

    def note_crowd(self, domain: DomainName) -> None:
        """Remember that somebody else published in *domain* at the same moment."""
        self._crowded_until[domain] = self.clock.monotonic() + _CROWDED_S

    def is_crowded(self, domain: DomainName) -> bool:
        """Whether that was a moment ago, so that the next publish had better wait for its turn."""
        return self.clock.monotonic() < self._crowded_until.get(domain, 0.0)

    def register(self, job: EpochJob) -> JobRecord:
        """Make *job* and its tables known, or find that they are.

        :raises WrongWarehouse: the domain's files are in another one (R33).
        :raises TopologyError: the topology cannot hold it (R6). Of two racing registrations one wins.
        """
        own = self.formats.writable(job)
        return self._settled(registering(self, own).run)

    def begin(
        self,
        job: EpochJob,
        interval: Interval,
        owner: Owner,
        *,
        roots: RootSource | Mapping[str, RootBounds] | None = None,
        participants: int = 1,
        shared_ttl: timedelta | None = None,
    ) -> Attempt | AlreadyCommitted:
        """Open an attempt at one epoch, with inputs that are fixed before they are read.

        :param roots: asks the sources of roots, or has bounds; last, and only where nobody recorded any before (I11).
        :param participants: writers of this attempt; with several, each of them joins it (:meth:`join`).
        :param shared_ttl: they are processes of their own, also a single one joins, and all may be silent for so long.
        :return: an attempt whose ``adopted`` says that its output is complete already, or that it is committed.
        :raises NotReady: inputs have not reached the barrier; ``missing`` lists them.
        :raises EpochBusy: another run's live attempt.
        :raises Fenced: a newer attempt of the same run exists.
        :raises DependentReaders: committed readers depend on the committed revision.
        :raises InvalidInput: an interval that is none of the job's epochs, a root without bounds.
        :raises SourceUnavailable: a root's source did not answer. :raises Unavailable: what it had is gone, or grew.
        :raises SchemaMismatch: a declared change of columns that cannot be made (R32).
        :raises WrongWarehouse: the domain's files are in another one (R33).
        """
        # One id for each call, also for its repetitions after a lost reply: two callers never share a token.
        asking = replace(as_owner(owner), request_id=f"{self.random.getrandbits(128):032x}")
        own, source = self.formats.writable(job), as_source(roots)
        request = Begin(self, own, interval, asking, source, participants, shared_ttl=shared_ttl)
        return self._settled(request.run)

    def join(self, attempt: Attempt, participant: int, owner: Owner) -> Attempt:
        """Let one of several writers of *attempt* begin, or begin again: its earlier tries are fenced, no others (R10).

        What its earlier tries staged is deleted; what the other participants do goes on. Tries of one participant
        come in the order of their owners, as attempts do.

        :param participant: 0 to ``attempt.participants - 1``. :param owner: of this try.
        :return: the attempt as this try holds it: it writes and sends heartbeats with it.
        :raises Fenced: a newer attempt, or a newer try of this participant, exists.
        :raises Conflict: the attempt's output is complete or checked: no part of it changes any more.
        :raises InvalidInput: the attempt has one writer, or not this one; or it adopts complete output.
        """
        return join(self, attempt, participant, owner)

    def processed(self, attempt: Attempt, sink: str) -> None:
        """Report that all records for *sink* are in files that no reader can reach.

        :raises Fenced: a newer attempt, or a newer try of this participant, exists; nothing was changed.
        """
        self._report(attempt, entry(attempt, sink, EpochState.PROCESSED))

    def written(self, attempt: Attempt, sink: str, committable: Committable) -> None:
        """Record what is to be published for *sink*.

        :raises Fenced: a newer attempt, or a newer try of this participant, exists; nothing was changed.
        :raises InvalidInput: other content was recorded for the same attempt, participant and sink (R1).
        """
        self._report(attempt, entry(attempt, sink, EpochState.WRITTEN, committable))

    def complete(self, attempt: Attempt) -> None:
        """Record that the attempt's code came to its end, before somebody else publishes it.

        Only such output is adopted by a later try (R16): code that dies after its last write may have been
        about to refuse it.

        :raises Fenced: a newer attempt exists. :raises NotReady: participants have not WRITTEN; ``missing`` lists them.
        :raises Conflict: a participant was begun again at this moment.
        """
        refuse_alone(attempt)

        def operation() -> None:
            log = self.barriers(attempt.domain, attempt.job, attempt.interval) if attempt.is_shared else []
            without = whole(attempt, [one.record for one in log])
            report(self.store, attempt, completion(attempt), without)

        self._settled(operation)

    def check(self, attempt: Attempt, query: Query | None = None) -> None:
        """Run the job's checks on exactly what is recorded at WRITTEN, once for each output (R14).

        :param query: answers SQL; by default DuckDB does.
        :raises Vetoed: a check refused it: the attempt has ended, and what it staged is kept to be looked at.
        :raises Fenced: a newer attempt exists.
        :raises InvalidInput: a check needs an SQL engine, and there is none.
        """
        refuse_alone(attempt)
        if attempt.checks:
            self._settled(Checking(self, attempt, query).run)

    def publish(self, attempt: Attempt) -> Published:
        """Make the epoch's slices of all sinks visible at one CSN, or nothing of it (R2).

        :raises Vetoed: one of the job's checks refused the output (R14).
        :raises Conflict: inputs were computed again meanwhile: begin again (R13).
        :raises Fenced: a newer attempt exists.
        :raises DependentReaders: a revision, and committed readers depend on what it replaces.
        :raises InvalidInput: a sink is not WRITTEN.
        """
        self.check(attempt)
        return self._settled(Publish(self, attempt).run)

    def skip(self, domain: str, job: str, span: Interval, reason: str, *, by: str) -> Skipped:
        """Declare that nothing will come of the epochs in *span* (R5): see :func:`~.skip.skip`."""
        return skip(self, domain, job, span, reason=reason, by=by)

    def retire(self, domain: str, job: str, *, reason: str, by: str, table: str | None = None) -> None:
        """Let nothing more come of *job*, or of a table that it has left (R7): see :func:`~.retire.retire`."""
        retire(self, domain, job, reason=reason, by=by, table=table)

    def revive(self, domain: str, job: str) -> None:
        """Let a retired job go on where it was: see :func:`~.retire.revive`."""
        revive(self, domain, job)

    def abort(self, attempt: Attempt, reason: str) -> None:
        """End an attempt without a commit and delete what it staged; after its commit it does nothing.

        After a veto nothing is deleted either: the output stays to be looked at (R14). What a run of a skipped epoch
        has recorded of its roots is given back, also after a veto.

        :raises Fenced: a newer attempt exists; it has ended this one already.
        """
        refuse_alone(attempt)
        if self._settled(End(self, attempt, reason).run):
            self.discard(self._settled(lambda: self._places(attempt)))
        if attempt.roots:
            self._settled(lambda: give_back(self, attempt))

    def heartbeat(self, attempt: Attempt) -> timedelta:
        """Renew the attempt's lock; return how long it lasts from now on.

        :raises Fenced: the attempt is over.
        """
        return self._settled(lambda: renew(self.store, attempt))

    def input(self, attempt: Attempt, table: str) -> tuple[State, str]:
        """Return the state that the attempt reads of *table* and the schema to read it with.

        The schema is empty text when the state has no commit.

        :raises InvalidInput: the job declares no edge on *table*.
        """
        provenance = attempt.input(table)
        record_key = table_key(attempt.domain, provenance.table)
        keys = [record_key]
        if provenance.ref is not None:
            ref = provenance.ref
            keys.append(schema_key(attempt.domain, provenance.table, ref.table_uuid, ref.schema_id))
        reading = self._settled(lambda: self.store.read(attempt.domain, keys))
        record = reading.get(record_key)
        if record is None:
            raise UnknownName(
                f"table {table!r} is not registered in domain {attempt.domain!r}.",
                next_step="check the domain of the job and the connection.",
                table=table,
            )
        schema = reading.get(keys[-1]) if provenance.ref is not None else None
        return state_of(provenance, record.record.kind), schema.record.schema if schema else ""

    def columns(self, attempt: Attempt, sink: str) -> TableInfo | None:
        """Return the table with the columns that rows of *attempt* are to have: :func:`~.alter.written_columns`."""
        return self._settled(lambda: written_columns(self, attempt, sink))

    def place(self, attempt: Attempt, sink: str) -> Place:
        """Return where *attempt* stages the rows of *sink*."""
        table = attempt.sink(sink)
        return self.formats[table.format].place(
            table,
            job=attempt.job,
            interval=attempt.interval,
            revision=attempt.revision,
            token=attempt.token,
            participant=attempt.participant,
            subtoken=attempt.subtoken,
        )

    def _places(self, attempt: Attempt) -> list[Place]:
        """All places of *attempt*, of every try of each of its participants."""
        writers = [attempt]
        if attempt.is_shared:
            log = [one.record for one in self.barriers(attempt.domain, attempt.job, attempt.interval)]
            found = tries(log, attempt.token)
            writers = [replace(attempt, participant=number, subtoken=one) for number, one in found]
        return [self.place(writer, sink.name) for writer in writers for sink in attempt.sinks]

    def epoch(self, domain: DomainName, job: JobName, interval: Interval) -> Stamped[EpochRecord] | None:
        """Return the record of one epoch, None when nobody has begun it."""
        key = epoch_key(domain, job, interval.start)
        return self.store.read(key.domain, [key]).get(key)

    def barriers(self, domain: DomainName, job: JobName, interval: Interval) -> list[Stamped[BarrierRecord]]:
        """Return the barrier log of one epoch, by token and participant."""
        return self.store.scan(domain, Kind.BARRIER, barrier_partition(job, interval.start))

    def discard(self, places: list[Place]) -> None:
        """Delete what was staged at *places* (R16); never call it for a published attempt."""
        for place in places:
            self.formats[place.table.format].discard(place)

    def _settled(self, operation: Callable[[], Answer]) -> Answer:
        return settled(
            operation,
            clock=self.clock,
            random=self.random,
            patience=self.defaults.unknown_outcome_patience,
        )

    def _report(self, attempt: Attempt, record: BarrierRecord) -> None:
        self._settled(lambda: report(self.store, attempt, record, newer_try(attempt)))
