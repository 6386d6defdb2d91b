"""How records are written down."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import StrEnum

import pytest

from airflow_provider.domain.epoch import EpochState
from airflow_provider.domain.errors import InvalidInput, PackageTooOld, StoreIncompatible
from airflow_provider.domain.format_marks import FORMAT, since
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.records import RECORDS, Key, Kind
from airflow_provider.domain.topology_record import TopologyRecord
from airflow_provider.domain.version import SchemaRecord
from airflow_provider.stores import codec
from airflow_provider.stores.codec import MAX_RECORD_BYTES, decode, encode
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
def test_decoded_record_equals_the_encoded_one(kind: Kind, make: type) -> None:
    record = make(kind)
    body = encode(key_of(kind), record)
    assert decode(key_of(kind), body) == record
    assert decode(key_of(kind), body.decode()) == record
    assert encode(key_of(kind), decode(key_of(kind), body)) == body


@pytest.mark.parametrize("kind", list(Kind))
def test_a_body_is_json_with_its_format_in_front(kind: Kind) -> None:
    body = encode(key_of(kind), sample(kind))
    assert body.startswith(b'{"format":%d,"record":{' % FORMAT)
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
    with pytest.raises(PackageTooOld) as refused:
        decode(TOPOLOGY, f'{{"format":{found},"record":{{"generation":1,"more":{{}}}}}}')
    error = refused.value
    assert (error.key, error.found, error.expected) == (TOPOLOGY, str(found), str(FORMAT))
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


def test_the_first_format_keeps_its_names_of_fields_and_values() -> None:
    event = replace(sample(Kind.EVENT), state=EpochState.CHECK_FAILED, participant_attempt=2)
    event = replace(event, owner=replace(event.owner, max_tries=None, clear_number=None))  # of format 2
    body = encode(key_of(Kind.EVENT), event, 1)
    fields = json.loads(body)["record"]
    assert (fields["state"], fields["subtoken"]) == ("VETOED", 2)
    assert decode(key_of(Kind.EVENT), body) == event
    assert b'"CHECK_FAILED"' in encode(key_of(Kind.EVENT), event, 2)


@pytest.mark.parametrize("record", ["[]", '{"state":[]}', '{"state":{"VETOED":1}}', '{"state":"REVOKED"}'])
def test_a_damaged_record_of_the_first_format_is_reported(record: str) -> None:
    with pytest.raises(StoreIncompatible, match="cannot be read as a AttemptEvent"):
        decode(key_of(Kind.EVENT), f'{{"format":1,"record":{record}}}')


def test_an_unknown_field_deep_inside_is_named() -> None:
    body = json.loads(encode(key_of(Kind.JOB), sample(Kind.JOB)))
    body["record"]["cadence"]["calendar"] = "lunar"
    with pytest.raises(PackageTooOld) as refused:
        decode(key_of(Kind.JOB), json.dumps(body))
    assert refused.value.field == "cadence.calendar"


def test_an_unknown_field_in_a_list_is_named() -> None:
    body = json.loads(encode(key_of(Kind.JOB), sample(Kind.JOB)))
    body["record"]["outputs"][1]["colour"] = "red"
    with pytest.raises(PackageTooOld) as refused:
        decode(key_of(Kind.JOB), json.dumps(body))
    assert refused.value.field == "outputs.colour"


def test_a_missing_field_with_a_default_is_an_older_record() -> None:
    body = json.loads(encode(key_of(Kind.EVENT), bare(Kind.EVENT)))
    del body["record"]["note"]
    assert decode(key_of(Kind.EVENT), json.dumps(body)) == bare(Kind.EVENT)


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
def test_record_of_another_kind_is_refused(record: object) -> None:
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
    assert refused.value.expected == f"at most {MAX_RECORD_BYTES} bytes"
    assert isinstance(refused.value.value, int)
    assert refused.value.value > MAX_RECORD_BYTES


class Colour(StrEnum):
    RED = "red"
    GREEN = "green"


@dataclass(frozen=True)
class Part:
    """A part of a record that got fields."""

    name: str
    size: int = field(default=0, metadata=since(2))
    note: str = field(default="", metadata=since(2, optional=True))


@dataclass(frozen=True)
class Whole:
    """A record that got fields."""

    parts: tuple[Part, ...] = ()
    by_name: dict[str, Part] = field(default_factory=dict)
    colour: Colour = Colour.RED
    tags: tuple[str, ...] = field(default=(), metadata=since(2))


@pytest.fixture
def whole(monkeypatch: pytest.MonkeyPatch) -> Key:
    """Where a record lies that got fields and values."""
    monkeypatch.setattr(codec, "RECORDS", {Kind.TOPOLOGY: Whole})
    monkeypatch.setattr(codec, "_decoders", {Kind.TOPOLOGY: codec.msgspec.json.Decoder(Whole)})
    monkeypatch.setattr(codec, "VALUES_SINCE", {Colour.GREEN: 2})
    return TOPOLOGY


def test_an_older_store_gets_no_newer_field(whole: Key) -> None:
    record = Whole(parts=(Part("a"), Part("b", note="left out")), by_name={"c": Part("c"), "b": Part("d")})
    body = encode(whole, record, 1)
    assert body == (
        b'{"format":1,"record":{"parts":[{"name":"a"},{"name":"b"}],'
        b'"by_name":{"b":{"name":"d"},"c":{"name":"c"}},"colour":"red"}}'
    )
    assert decode(whole, body) == replace(record, parts=(Part("a"), Part("b")))


@pytest.mark.parametrize(
    ("record", "named"),
    [
        (Whole(tags=("x",)), "field tags"),
        (Whole(parts=(Part("a", size=1),)), "field parts.size"),
        (Whole(by_name={"b": Part("b", size=1)}), "field by_name.size"),
        (Whole(colour=Colour.GREEN), "colour.green"),
    ],
    ids=str,
)
def test_values_that_an_older_store_cannot_hold_are_refused(whole: Key, record: Whole, named: str) -> None:
    with pytest.raises(StoreIncompatible, match=named) as refused:
        encode(whole, record, 1)
    assert (refused.value.found, refused.value.expected) == ("1", "2")
    assert "airflow epochs db upgrade" in refused.value.next_step
    assert decode(whole, encode(whole, record, 2)) == record


def test_an_older_store_gets_no_newer_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "KINDS_SINCE", {Kind.TOPOLOGY: 2})
    with pytest.raises(StoreIncompatible, match="db upgrade"):
        encode(TOPOLOGY, TopologyRecord(generation=1), 1)


@pytest.mark.parametrize("kind", list(Kind))
def test_a_bare_record_fits_every_format(kind: Kind) -> None:
    for number in range(codec.KINDS_SINCE.get(kind, 1), FORMAT + 1):
        assert decode(key_of(kind), encode(key_of(kind), bare(kind), number)) == bare(kind)
