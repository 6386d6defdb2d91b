"""Cases: a transaction applies wholly, numbered without gaps, or changes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.records import Key, Kind
from airflow_provider.domain.topology_record import TopologyRecord
from airflow_provider.domain.version import SchemaRecord
from airflow_provider.stores.base import (
    Absent,
    Delete,
    Exists,
    MetadataStore,
    Put,
    RequirementFailed,
    SameStore,
    Transaction,
    commit_key,
)
from airflow_provider.stores.codec import MAX_RECORD_BYTES
from airflow_provider.testing.store_cases.backend import (
    StoreCases,
    commit,
    counter_key,
    everything,
    publish,
    put,
    write,
)
from airflow_provider.testing.store_cases.samples import bare, sample


class TransactionCases(StoreCases):
    """Requirements, updates, versions, numbers, refusals."""

    # --- requirements ----------------------------------------------------------------------------------------

    def test_absence_is_required(self, store: MetadataStore, domain: DomainName) -> None:
        key = counter_key(domain)
        receipt = write(store, put(key, 1), requires=[Absent(key)])
        with pytest.raises(RequirementFailed) as failed:
            write(store, put(key, 2), requires=[Absent(key)])
        assert failed.value.requirement == Absent(key)
        assert (failed.value.expected, failed.value.found) == (None, receipt.versions[key])
        assert store.read(domain, [key]).records[key].record.generation == 1

    def test_a_version_is_required(self, store: MetadataStore, domain: DomainName) -> None:
        key = counter_key(domain)
        with pytest.raises(RequirementFailed) as failed:
            write(store, put(key, 1), requires=[Exists(key, 1)])
        assert (failed.value.expected, failed.value.found) == (1, None)
        old = write(store, put(key, 1)).versions[key]
        new = write(store, put(key, 2), requires=[Exists(key, old)]).versions[key]
        with pytest.raises(RequirementFailed) as failed:
            write(store, put(key, 3), requires=[Exists(key, old)])
        assert (failed.value.expected, failed.value.found) == (old, new)
        assert store.read(domain, [key]).records[key].record.generation == 2

    @pytest.mark.parametrize("position", range(4))
    @pytest.mark.parametrize("failing", ["missing", "stale", "present"])
    def test_a_failed_requirement_in_any_position_changes_nothing(
        self, store: MetadataStore, domain: DomainName, position: int, failing: str
    ) -> None:
        """R2: a transaction applies wholly or not at all."""
        kept, goes = counter_key(domain, "kept"), counter_key(domain, "goes", "a")
        versions = write(store, put(kept), put(goes)).versions
        publish(store, domain)
        before = everything(store, domain)
        breaking: dict[str, Exists | Absent] = {
            "missing": Exists(counter_key(domain, "missing"), 1),
            "stale": Exists(kept, versions[kept] + 1),
            "present": Absent(goes),
        }
        broken = breaking[failing]
        requires: list[Exists | Absent] = [
            Exists(kept, versions[kept]),
            Absent(counter_key(domain, "new")),
            Exists(goes, versions[goes]),
        ]
        requires.insert(position, broken)
        with pytest.raises(RequirementFailed) as failed:
            store.transact(
                Transaction(
                    domain=domain,
                    requires=tuple(requires),
                    updates=(put(kept, 9), put(counter_key(domain, "new"), 9), Delete(goes)),
                    number=commit(),
                )
            )
        assert failed.value.requirement == broken
        assert everything(store, domain) == before

    def test_the_first_failure_is_reported(self, store: MetadataStore, domain: DomainName) -> None:
        one, two = (Exists(counter_key(domain, name), 1) for name in ("one", "two"))
        for requires in ((one, two), (two, one)):
            with pytest.raises(RequirementFailed) as failed:
                store.transact(Transaction(domain=domain, requires=requires, number=commit(expected=99)))
            assert failed.value.requirement == requires[0]
            assert requires[0].key.item in str(failed.value)

    @pytest.mark.parametrize("there", [True, False], ids=["there", "absent"])
    def test_what_contradicts_itself_changes_nothing(
        self, store: MetadataStore, domain: DomainName, there: bool
    ) -> None:
        """R2: of two requirements of one record that exclude each other, one fails, in either order."""
        key, other = counter_key(domain), counter_key(domain, "other")
        version = write(store, put(key)).versions[key] if there else 1
        before = everything(store, domain)
        holds, fails = (Exists(key, version), Absent(key)) if there else (Absent(key), Exists(key, version))
        for requires in ([fails, holds], [holds, fails]):
            for changed in (key, other):
                with pytest.raises(RequirementFailed) as failed:
                    write(store, put(changed, 9), requires=requires)
                assert failed.value.requirement == fails
                assert everything(store, domain) == before

    def test_requirements_alone_are_checked(self, store: MetadataStore, domain: DomainName) -> None:
        key = counter_key(domain)
        version = write(store, put(key)).versions[key]
        before = everything(store, domain)
        receipt = store.transact(Transaction(domain=domain, requires=(Exists(key, version),)))
        assert (receipt.csn, receipt.versions) == (None, {})
        with pytest.raises(RequirementFailed):
            store.transact(Transaction(domain=domain, requires=(Absent(key),)))
        assert everything(store, domain) == before

    # --- versions --------------------------------------------------------------------------------------------

    def test_no_version_of_a_key_comes_twice(self, store: MetadataStore, domain: DomainName) -> None:
        """R10: a log cannot become true again."""
        key = counter_key(domain)
        seen = []
        for number in range(5):
            seen.append(write(store, put(key, number)).versions[key])
            seen.append(write(store, put(key, number)).versions[key])
            store.transact(Transaction(domain=domain, updates=(Delete(key),)))
            with pytest.raises(RequirementFailed):
                write(store, put(key, number), requires=[Exists(key, seen[-1])])
        assert len(set(seen)) == len(seen)

    def test_a_key_that_was_made_again_is_another_one(self, store: MetadataStore, domain: DomainName) -> None:
        key = counter_key(domain)
        first = write(store, put(key)).versions[key]
        store.transact(Transaction(domain=domain, updates=(Delete(key),)))
        assert store.read(domain, [key]).records == {}
        assert store.scan(domain, Kind.TOPOLOGY, "") == []
        again = write(store, put(key), requires=[Absent(key)]).versions[key]
        assert again != first
        with pytest.raises(RequirementFailed):
            write(store, put(key, 2), requires=[Exists(key, first)])

    def test_deleting_nothing_is_no_error(self, store: MetadataStore, domain: DomainName) -> None:
        store.transact(Transaction(domain=domain, updates=(Delete(counter_key(domain)),)))
        assert store.read(domain, [counter_key(domain)]).records == {}
        assert domain not in store.domains()

    # --- numbers ---------------------------------------------------------------------------------------------

    def test_numbers_have_no_gaps(self, store: MetadataStore, domain: DomainName) -> None:
        """R3, R35, I2: a refused transaction takes no CSN; commits are read in order, from any CSN on."""
        key = counter_key(domain)
        assert publish(store, domain, "first").csn == 1
        with pytest.raises(RequirementFailed):
            store.transact(Transaction(domain=domain, requires=(Exists(key, 1),), number=commit("lost")))
        assert write(store, put(key)).csn is None
        assert publish(store, domain, "second", expected=2).csn == 2
        with pytest.raises(InvalidInput):
            store.transact(
                Transaction(domain=domain, updates=(put(key), Delete(key)), number=commit("wrong"))
            )
        assert publish(store, domain, "third").csn == 3
        assert [(change.csn, change.record.change_set) for change in store.changes(domain, 0)] == [
            (1, "first"),
            (2, "second"),
            (3, "third"),
        ]
        assert [change.csn for change in store.changes(domain, 1)] == [2, 3]
        assert [change.csn for change in store.changes(domain, 0, limit=2)] == [1, 2]
        assert store.changes(domain, 3) == []
        assert store.read(domain, []).head.csn == 3

    def test_a_number_of_another_incarnation_is_refused(
        self, store: MetadataStore, domain: DomainName
    ) -> None:
        """R33: a transaction decided before the store was restored from a backup is not applied to it."""
        incarnation = store.read(domain, []).head.incarnation
        publish(store, domain, "first", incarnation=incarnation)
        with pytest.raises(RequirementFailed) as refused:
            publish(store, domain, "second", incarnation="another")
        assert refused.value.details["found"] == incarnation
        assert store.read(domain, []).head.csn == 1

    def test_a_transaction_of_another_incarnation_changes_nothing(
        self, store: MetadataStore, domain: DomainName
    ) -> None:
        """R33: it is refused before any other requirement, with or without a CSN, for any updates."""
        key, other = counter_key(domain), counter_key(domain, "other")
        here = SameStore(store.read(domain, []).head.incarnation)
        elsewhere = SameStore("another")
        store.transact(Transaction(domain=domain, store=here, requires=(Absent(key),), updates=(put(key),)))
        before = everything(store, domain)
        for requires, updates, number in (
            ((Absent(other),), (put(other),), None),
            ((Exists(key, 0),), (put(key, 2),), None),
            ((), (put(key, 2), put(other)), None),
            ((), (Delete(key),), None),
            ((Absent(other),), (), commit()),
        ):
            refused = Transaction(
                domain=domain, store=elsewhere, requires=requires, updates=updates, number=number
            )
            with pytest.raises(RequirementFailed) as failed:
                store.transact(refused)
            assert (failed.value.requirement, failed.value.found) == (elsewhere, here.incarnation)
            assert everything(store, domain) == before

    @pytest.mark.parametrize("expected", [0, 1, 3])
    def test_another_number_than_expected_changes_nothing(
        self, store: MetadataStore, domain: DomainName, expected: int
    ) -> None:
        publish(store, domain)
        before = everything(store, domain)
        with pytest.raises(RequirementFailed) as failed:
            write(store, put(counter_key(domain)), number=commit(expected=expected))
        assert (failed.value.expected, failed.value.found) == (expected, 2)
        assert everything(store, domain) == before

    def test_a_numbered_transaction_stamps_all_it_writes(
        self, store: MetadataStore, domain: DomainName
    ) -> None:
        """R3: the store stamps CSN, version and time."""
        quiet, loud = counter_key(domain, "quiet"), counter_key(domain, "loud")
        write(store, put(quiet), put(loud))
        receipt = write(store, put(loud, 2), number=commit("change"))
        reading = store.read(domain, [quiet, loud, commit_key(domain, 1)])
        stamps = {
            key.item: (stamped.csn, stamped.at == receipt.at) for key, stamped in reading.records.items()
        }
        assert stamps == {
            "quiet": (None, False),
            "loud": (1, True),
            commit_key(domain, 1).item: (1, True),
        }
        write(store, put(loud, 3))
        assert store.read(domain, [loud]).records[loud].csn is None

    def test_a_rewrites_mark_tells_when_it_was_made(self, store: MetadataStore, domain: DomainName) -> None:
        """A caller that reads the mark only after the rewrite finds its version unchanged, and its CSN too new."""
        log = Key(domain, Kind.REWRITE_LOG, "", "table")
        write(store, Put(log, bare(Kind.REWRITE_LOG)))
        read_csn = publish(store, domain).csn
        write(store, Put(log, sample(Kind.REWRITE_LOG)), number=commit("rewrite"))
        late = store.read(domain, [log]).records[log]
        write(store, put(counter_key(domain)), requires=[Exists(log, late.version)])
        assert read_csn is not None
        assert late.csn == read_csn + 1

    # --- refusals --------------------------------------------------------------------------------------------

    def test_what_is_no_transaction_changes_nothing(self, store: MetadataStore, domain: DomainName) -> None:
        key, other = counter_key(domain), counter_key(DomainName(f"{domain}-other"))
        write(store, put(key))
        before = everything(store, domain)
        good = put(counter_key(domain, "good"), 9)
        wrong: list[dict[str, Any]] = [
            {"updates": (good, put(other))},
            {"updates": (good, Delete(other))},
            {"updates": (good,), "requires": (Absent(other),)},
            {"updates": (good, put(key), put(key, 2))},
            {"updates": (good, put(key), Delete(key))},
            {"updates": (good, Put(key, SchemaRecord(schema="")))},
            {"updates": (good, Put(key, {"generation": 1}))},
            {"updates": (good, Put(key, TopologyRecord(generation="1")))},  # type: ignore[arg-type]
            {"updates": (good, Put(key, TopologyRecord(generation=None)))},  # type: ignore[arg-type]
            {"updates": (good, Put(commit_key(domain, 1), commit().commit))},
            {"updates": (good, Delete(commit_key(domain, 1)))},
        ]
        for options in wrong:
            with pytest.raises(InvalidInput):
                store.transact(Transaction(domain=domain, number=commit(), **options))
        assert everything(store, domain) == before

    def test_a_record_that_is_too_large_is_refused(self, store: MetadataStore, domain: DomainName) -> None:
        key = Key(domain, Kind.SCHEMA, "", "table")
        around = len('{"format":1,"record":{"schema":""}}')
        largest = SchemaRecord(schema="x" * (MAX_RECORD_BYTES - around))
        write(store, Put(key, largest))
        assert store.read(domain, [key]).records[key].record == largest
        with pytest.raises(InvalidInput, match=f"{MAX_RECORD_BYTES + 1} bytes"):
            write(store, Put(key, SchemaRecord(schema=largest.schema + "x")))
        with pytest.raises(InvalidInput, match="schema"):
            write(store, Put(key, SchemaRecord(schema="\ud800")))
        assert store.read(domain, [key]).records[key].record == largest
