"""Cases: an unreadable record is reported, never skipped; the error of a lost message says what may have happened."""

from __future__ import annotations

import pytest

from airflow_provider.domain.errors import OutcomeUnknown, PackageTooOld, StoreIncompatible, StoreUnavailable
from airflow_provider.domain.format_marks import FORMAT
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.records import Key, Kind
from airflow_provider.stores.base import Absent, MetadataStore, Put, RequirementFailed
from airflow_provider.testing.faults import Fault, FaultyStore, first
from airflow_provider.testing.store_cases.backend import (
    StoreBackend,
    StoreCases,
    commit,
    counter_key,
    everything,
    put,
    write,
)
from airflow_provider.testing.store_cases.samples import bare

UNREADABLE = {
    "damaged": b"{",
    "of another kind": b'{"format":1,"record":{"schema":"x"}}',
    "of a newer format": b'{"format":%d,"record":{"generation":1}}' % (FORMAT + 1),
    "of an unknown older format": b'{"format":0,"record":{"generation":1}}',
    "of no format": b'{"generation":1}',
    "with an unknown field": b'{"format":1,"record":{"generation":1,"colour":"red"}}',
    "without a field": b'{"format":1,"record":{}}',
    "with a value of another type": b'{"format":1,"record":{"generation":"1"}}',
}

FROM_BEFORE_FLOOR = b'{"format": 1, "record": {"latest": null, "earlier": []}}'
"""A rewrite log without the field ``floor``, which has a default."""


class CompatibilityCases(StoreCases):
    """Unreadable records, lost requests, lost replies."""

    @pytest.mark.parametrize("body", UNREADABLE.values(), ids=UNREADABLE.keys())
    def test_an_unreadable_record_is_never_skipped(
        self, backend: StoreBackend, store: MetadataStore, domain: DomainName, body: bytes
    ) -> None:
        """R23: neither a read nor a scan leaves it out."""
        keys = [counter_key(domain, name) for name in ("before", "broken", "behind")]
        write(store, *(put(key) for key in keys))
        backend.plant(keys[1], body)
        for read in (
            lambda: store.read(domain, keys),
            lambda: store.scan(domain, Kind.TOPOLOGY, ""),
            lambda: store.scan(domain, Kind.TOPOLOGY, "", limit=2, reverse=True),
        ):
            with pytest.raises((StoreIncompatible, PackageTooOld), match="broken") as refused:
                read()
            assert refused.value.details["key"] == keys[1]
            assert "airflow epochs db" in refused.value.next_step
        assert len(store.read(domain, [keys[0], keys[2]]).records) == 2

    def test_a_newer_format_is_named(
        self, backend: StoreBackend, store: MetadataStore, domain: DomainName
    ) -> None:
        key = counter_key(domain)
        write(store, put(key))
        backend.plant(key, UNREADABLE["of a newer format"])
        with pytest.raises(PackageTooOld) as refused:
            store.read(domain, [key])
        assert (refused.value.found, refused.value.expected) == (str(FORMAT + 1), str(FORMAT))

    def test_a_record_from_before_a_field_with_a_default_is_read(
        self, backend: StoreBackend, store: MetadataStore, domain: DomainName
    ) -> None:
        key = Key(domain, Kind.REWRITE_LOG, "", "table")
        write(store, Put(key, bare(Kind.REWRITE_LOG)))
        backend.plant(key, FROM_BEFORE_FLOOR)
        assert store.read(domain, [key]).records[key].record == bare(Kind.REWRITE_LOG)

    def test_a_lost_request_changes_nothing(self, store: MetadataStore, domain: DomainName) -> None:
        faulty = FaultyStore(store, first("transact", Fault.REQUEST_LOST))
        before = everything(store, domain)
        key = counter_key(domain)
        with pytest.raises(StoreUnavailable):
            write(faulty, put(key), requires=[Absent(key)], number=commit())
        assert everything(store, domain) == before
        assert write(faulty, put(key), requires=[Absent(key)], number=commit()).csn == 1

    def test_a_lost_reply_can_be_asked_about(self, store: MetadataStore, domain: DomainName) -> None:
        """R15: a transaction that changes what it requires cannot be applied twice."""
        faulty = FaultyStore(store, first("transact", Fault.REPLY_LOST))
        key = counter_key(domain)
        with pytest.raises(OutcomeUnknown):
            write(faulty, put(key), requires=[Absent(key)], number=commit())
        assert faulty.read(domain, [key]).records[key].csn == 1
        with pytest.raises(RequirementFailed):
            write(faulty, put(key), requires=[Absent(key)], number=commit())
        assert store.read(domain, []).head.csn == 1

    def test_a_lost_answer_to_a_reader_is_unavailability(
        self, store: MetadataStore, domain: DomainName
    ) -> None:
        for fault in Fault:
            faulty = FaultyStore(store, first("read", fault))
            with pytest.raises(StoreUnavailable):
                faulty.read(domain, [])
            assert faulty.read(domain, []).head.csn == 0
            assert [call.method for call in faulty.calls] == ["read", "read"]
