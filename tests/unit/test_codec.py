"""How records are written down."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from airflow_provider.domain.errors import InvalidInput, StoreIncompatible
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.records import Key, Kind
from airflow_provider.domain.registration import TopologyRecord
from airflow_provider.domain.version import SchemaRecord
from airflow_provider.stores import codec
from airflow_provider.stores.codec import FORMAT, MAX_RECORD_BYTES, RECORDS, decode, encode
from airflow_provider.testing.store_cases.samples import bare, sample


def key_of(kind: Kind) -> Key:
    return Key(DomainName("d"), kind, "partition", "item")


TOPOLOGY = key_of(Kind.TOPOLOGY)


def stored(**fields: object) -> bytes:
    return json.dumps({"format": FORMAT, "record": fields}).encode()


def test_every_kind_has_one_record() -> None:
    assert set(RECORDS) == set(Kind)
    assert len(set(RECORDS.values())) == len(Kind)


@pytest.mark.parametrize("make", [sample, bare])
@pytest.mark.parametrize("kind", list(Kind))
def test_what_is_decoded_is_what_was_encoded(kind: Kind, make: type) -> None:
    record = make(kind)
    body = encode(key_of(kind), record)
    assert decode(key_of(kind), body) == record
    assert decode(key_of(kind), body.decode()) == record
    assert encode(key_of(kind), decode(key_of(kind), body)) == body


@pytest.mark.parametrize("kind", list(Kind))
def test_a_body_is_json_with_its_format_in_front(kind: Kind) -> None:
    body = encode(key_of(kind), sample(kind))
    assert body.startswith(b'{"format":1,"record":{')
    assert list(json.loads(body)["record"]) == list(RECORDS[kind].__dataclass_fields__)


def test_white_space_and_order_do_not_matter_to_a_reader() -> None:
    body = encode(key_of(Kind.LOCK), sample(Kind.LOCK))
    loose = json.loads(body)
    loose["record"] = dict(reversed(loose["record"].items()))
    assert decode(key_of(Kind.LOCK), json.dumps(loose, indent=2)) == sample(Kind.LOCK)


def test_durations_keep_their_microseconds() -> None:
    record = replace(sample(Kind.LOCK), ttl=timedelta(days=400, microseconds=1))
    assert decode(key_of(Kind.LOCK), encode(key_of(Kind.LOCK), record)) == record


@pytest.mark.parametrize("found", [FORMAT + 1, 99])
def test_a_newer_format_asks_for_a_newer_package(found: int) -> None:
    with pytest.raises(StoreIncompatible) as refused:
        decode(TOPOLOGY, f'{{"format":{found},"record":{{"generation":1,"more":{{}}}}}}')
    error = refused.value
    assert (error.key, error.found, error.expected) == (TOPOLOGY, found, FORMAT)
    assert "upgrade the package" in error.next_step
    assert "item" in str(error)


def test_an_older_format_without_a_way_up_asks_for_an_upgrade_of_the_store() -> None:
    with pytest.raises(StoreIncompatible) as refused:
        decode(TOPOLOGY, b'{"format":0,"record":{"generation":1}}')
    assert refused.value.next_step == "run `airflow epochs db upgrade`."


def test_an_older_format_with_a_way_up_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    upgrades = {(Kind.TOPOLOGY, 0): lambda fields: {"generation": fields["number"]}}
    monkeypatch.setattr(codec, "UPGRADES", upgrades)
    assert decode(TOPOLOGY, b'{"format":0,"record":{"number":7}}') == TopologyRecord(generation=7)


def test_an_unknown_field_deep_inside_is_named() -> None:
    body = json.loads(encode(key_of(Kind.JOB), sample(Kind.JOB)))
    body["record"]["cadence"]["calendar"] = "lunar"
    with pytest.raises(StoreIncompatible) as refused:
        decode(key_of(Kind.JOB), json.dumps(body))
    assert refused.value.field == "cadence.calendar"


def test_an_unknown_field_in_a_list_is_named() -> None:
    body = json.loads(encode(key_of(Kind.JOB), sample(Kind.JOB)))
    body["record"]["outputs"][1]["colour"] = "red"
    with pytest.raises(StoreIncompatible) as refused:
        decode(key_of(Kind.JOB), json.dumps(body))
    assert refused.value.field == "outputs.colour"


def test_a_missing_field_with_a_default_is_an_older_record() -> None:
    body = json.loads(encode(key_of(Kind.BARRIER), bare(Kind.BARRIER)))
    del body["record"]["note"]
    assert decode(key_of(Kind.BARRIER), json.dumps(body)) == bare(Kind.BARRIER)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"\xff\xfe",
        b'{"format":1}',
        b'{"format":1,"record":{"generation":1}',
        b'{"format":"1","record":{"generation":1}}',
        b'{"format":1,"record":{"generation":1.5}}',
        b'{"format":1,"record":{"generation":NaN}}',
        b'{"format":1,"record":{"generation":1e400}}',
        b'{"format":1,"record":' + b"[" * 20_000 + b"]" * 20_000 + b"}",
    ],
    ids=str,
)
def test_a_damaged_body_is_reported(body: bytes) -> None:
    with pytest.raises(StoreIncompatible) as refused:
        decode(TOPOLOGY, body)
    assert refused.value.key == TOPOLOGY
    assert "airflow epochs db check" in refused.value.next_step


def test_an_interval_that_contradicts_itself_is_damage() -> None:
    body = json.loads(encode(key_of(Kind.SLICE), sample(Kind.SLICE)))
    interval = body["record"]["interval"]
    interval["start"], interval["end"] = interval["end"], interval["start"]
    with pytest.raises(StoreIncompatible):
        decode(key_of(Kind.SLICE), json.dumps(body))


@pytest.mark.parametrize(
    "record",
    [
        None,
        {"generation": 1},
        SchemaRecord(schema="x"),
        TopologyRecord(generation="1"),  # type: ignore[arg-type]
        TopologyRecord(generation=1.0),  # type: ignore[arg-type]
    ],
    ids=repr,
)
def test_what_is_no_record_of_the_kind_is_refused(record: object) -> None:
    with pytest.raises(InvalidInput, match="record of topology"):
        encode(TOPOLOGY, record)


def test_half_a_surrogate_pair_is_refused() -> None:
    with pytest.raises(InvalidInput, match="record of schema"):
        encode(key_of(Kind.SCHEMA), SchemaRecord(schema="\ud800"))


def test_the_size_is_that_of_the_encoded_record() -> None:
    around = len(encode(key_of(Kind.SCHEMA), SchemaRecord(schema="")))
    largest = SchemaRecord(schema="é" * ((MAX_RECORD_BYTES - around) // 2))
    assert len(encode(key_of(Kind.SCHEMA), largest)) <= MAX_RECORD_BYTES
    with pytest.raises(InvalidInput) as refused:
        encode(key_of(Kind.SCHEMA), SchemaRecord(schema=largest.schema + "éé"))
    assert refused.value.expected == MAX_RECORD_BYTES
    assert refused.value.value > MAX_RECORD_BYTES
