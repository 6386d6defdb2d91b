"""Avro files of few records: Iceberg's manifests and manifest lists.

pyiceberg derives encoders and decoders from the schema anew for each file, which dominates the time of a small file.
This module derives them once per schema. See docs/decisions/small-metadata.md.
"""

from __future__ import annotations

import io
import json
import os
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from itertools import chain
from typing import Any

from pyiceberg.avro.decoder import StreamingBinaryDecoder, new_decoder
from pyiceberg.avro.encoder import BinaryEncoder
from pyiceberg.avro.file import MAGIC, META_SCHEMA, SYNC_SIZE, AvroFileHeader
from pyiceberg.avro.reader import Reader
from pyiceberg.avro.resolver import construct_reader, construct_writer, resolve_reader
from pyiceberg.avro.writer import (
    BinaryWriter,
    IntegerWriter,
    MapWriter,
    OptionWriter,
    StructWriter,
    Writer,
)
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import StructType
from pyiceberg.utils.schema_conversion import AvroSchemaConversion


class Damaged(ValueError):
    """A file that is not whole, or no Avro file."""


BLOCK = 1000
"""Maximum number of records of a block, which is compressed as a whole."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Form:
    """Encoder of the records of one schema.

    :param schema: the schema as JSON, for Avro's header.
    """

    schema: str
    writer: Writer

    @classmethod
    def of(cls, schema: Schema, name: str) -> Form:
        """Derive the encoder of *schema*. :param name: name of the record in Avro's schema."""
        text = json.dumps(AvroSchemaConversion().iceberg_to_avro(schema, schema_name=name))
        return cls(schema=text, writer=_with_quick_maps(construct_writer(schema)))


class _Numbers(dict[int, bytes]):
    """Avro's encoding of integers: seven bits a byte, the sign in the lowest one. Most of a manifest occur again."""

    _most = 2**16

    def __missing__(self, integer: int) -> bytes:
        rest = (integer << 1) ^ (integer >> 63)
        pieces = bytearray()
        while rest > 0x7F:
            pieces.append(rest & 0x7F | 0x80)
            rest >>= 7
        pieces.append(rest)
        found = bytes(pieces)
        if len(self) < self._most:
            self[integer] = found
        return found


_number = _Numbers().__getitem__


class Encoder(BinaryEncoder):
    """Writes an integer at once, where pyiceberg's does byte by byte."""

    def write_int(self, integer: int) -> None:
        self._output_stream.write(_number(integer))


class Statistics(Mapping[int, Any]):
    """Values by column id that are only to be written: a dictionary of each would take longer than all else.

    :param ids: of the columns, all distinct. :param listed: their values, in the same order.
    """

    __slots__ = ("ids", "listed")

    def __init__(self, ids: tuple[int, ...], listed: list[Any]) -> None:
        if len(ids) != len(listed):
            raise ValueError(f"{len(listed)} values of {len(ids)} columns")
        self.ids, self.listed = ids, listed

    def __getitem__(self, number: int) -> Any:
        return dict(zip(self.ids, self.listed, strict=True))[number]

    def __iter__(self) -> Iterator[int]:
        return iter(self.ids)

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class _QuickMap(Writer):
    """Writes a map from numbers at once: statistics of columns are most of a manifest, two values of a file a column.

    :param encode: returns the encoding of all pairs.
    """

    encode: Callable[[Mapping[int, Any]], bytes]

    def write(self, encoder: BinaryEncoder, val: Mapping[int, Any]) -> None:
        encoder.write_int(len(val))
        if val:
            encoder.write(self.encode(val))
            encoder.write_int(0)


def _numbers(pairs: Mapping[int, int]) -> bytes:
    ids, values = _columns(pairs)
    return b"".join(chain.from_iterable(zip(_keys(ids), map(_number, values), strict=True)))


def _texts(pairs: Mapping[int, bytes]) -> bytes:
    ids, values = _columns(pairs)
    sizes = map(_number, map(len, values))
    return b"".join(chain.from_iterable(zip(_keys(ids), sizes, values, strict=True)))


def _columns(pairs: Mapping[int, Any]) -> tuple[tuple[int, ...], Collection[Any]]:
    """Return the ids and the values of *pairs*."""
    return (pairs.ids, pairs.listed) if isinstance(pairs, Statistics) else (tuple(pairs), pairs.values())


@lru_cache(maxsize=64)
def _keys(numbers: tuple[int, ...]) -> tuple[bytes, ...]:
    """Return the encoded keys of a map, which are the same columns in each file of a table."""
    return tuple(map(_number, numbers))


_QUICK = {IntegerWriter: _QuickMap(_numbers), BinaryWriter: _QuickMap(_texts)}
"""By the class that writes a value."""


def _with_quick_maps(writer: Writer) -> Writer:
    if isinstance(writer, StructWriter):
        return StructWriter(
            tuple((position, _with_quick_maps(field)) for position, field in writer.field_writers)
        )
    if isinstance(writer, OptionWriter):
        return OptionWriter(_with_quick_maps(writer.option))
    if isinstance(writer, MapWriter) and isinstance(writer.key_writer, IntegerWriter):
        return _QUICK.get(type(writer.value_writer), writer)
    return writer


def encoded(form: Form, said: Mapping[str, str], records: Sequence[Record]) -> bytes:
    """Return the content of a file of *records*, with *said* in its header."""
    sync = os.urandom(SYNC_SIZE)
    content = io.BytesIO()
    encoder = Encoder(content)
    encoder.write(MAGIC)
    header = {**said, "avro.schema": form.schema, "avro.codec": "deflate"}
    encoder.write_int(len(header))
    for name, value in header.items():
        encoder.write_utf8(name)
        encoder.write_utf8(value)
    encoder.write_int(0)
    encoder.write(sync)
    for start in range(0, len(records), BLOCK):
        block = records[start : start + BLOCK]
        encoder.write_int(len(block))
        encoder.write_bytes(_packed(form, block))
        encoder.write(sync)
    return content.getvalue()


def _packed(form: Form, records: Sequence[Record]) -> bytes:
    """Return *records* compressed by Avro's codec ``deflate``: without zlib's own frame."""
    content = io.BytesIO()
    encoder = Encoder(content)
    for record in records:
        form.writer.write(encoder, record)
    packing = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packing.compress(content.getbuffer()) + packing.flush()


@dataclass(frozen=True, kw_only=True, eq=False)
class Kind:
    """Target of decoding a file, independent of the schema it was written with.

    :param types: classes of structs, by field id. :param enums: enum classes of numbers and texts, by field id.
    """

    schema: Schema
    types: Mapping[int, Callable[..., Record]]
    enums: Mapping[int, Callable[..., Enum]]


_HEADER = construct_reader(META_SCHEMA, {-1: AvroFileHeader})


@contextmanager
def _decoding() -> Iterator[None]:
    """:raises Damaged: a decoder fails, which say damage by whatever goes wrong in them."""
    try:
        yield
    except Exception as error:
        raise Damaged(f"{error}" or type(error).__name__) from error


def decoded(content: bytes, kind: Kind) -> list[Any]:
    """Return the records of a file.

    :raises Damaged: the file is damaged.
    """
    with _decoding():
        decoder = StreamingBinaryDecoder(content)
        header: AvroFileHeader = _HEADER.read(decoder)
        return list(_records(decoder, header, _reader(header.meta["avro.schema"], kind), len(content)))


def said(content: bytes) -> Mapping[str, str]:
    """Return the header of a file.

    :raises Damaged: the file is damaged.
    """
    with _decoding():
        header: AvroFileHeader = _HEADER.read(StreamingBinaryDecoder(content))
        return header.meta


def _records(
    decoder: StreamingBinaryDecoder, header: AvroFileHeader, reader: Reader, size_bytes: int
) -> Iterator[Any]:
    """Yield the records of a file.

    pyiceberg's quick decoder reads on beyond the end of its bytes, in memory of others. So it has only whole blocks,
    and headers and the frames of blocks have the other one, which tells that they end too early.
    """
    codec = header.compression_codec()
    while decoder.tell() < size_bytes:
        count, block = decoder.read_int(), decoder.read_bytes()
        if decoder.read(SYNC_SIZE) != header.sync:
            raise ValueError("a block of an Avro file does not end where it should")
        content = codec.decompress(block) if codec else block
        records = new_decoder(content)
        for _ in range(count):
            yield reader.read(records)
        if records.tell() != len(content):
            raise ValueError("a block of an Avro file has other records than it says")


@dataclass(frozen=True, kw_only=True, slots=True)
class Parts:
    """File in the form in which it was written.

    :param said: its header without Avro's own entries.
    :param paths: positions of fields in a record, or in a record within it, by field id.
    """

    form: Form
    said: Mapping[str, str]
    records: list[Record]
    paths: Mapping[int, tuple[int, ...]]
    size_bytes: int


def taken_apart(content: bytes) -> Parts:
    """Decode a file with all its fields, so that :func:`encoded` can write it again.

    :raises Damaged: the file is damaged.
    """
    with _decoding():
        decoder = StreamingBinaryDecoder(content)
        header: AvroFileHeader = _HEADER.read(decoder)
        text = header.meta["avro.schema"]
        reader, form, paths = _as_written(text)
        return Parts(
            form=form,
            said={name: value for name, value in header.meta.items() if not name.startswith("avro.")},
            records=list(_records(decoder, header, reader, len(content))),
            paths=paths,
            size_bytes=len(content),
        )


@lru_cache(maxsize=128)
def _as_written(text: str) -> tuple[Reader, Form, Mapping[int, tuple[int, ...]]]:
    schema = AvroSchemaConversion().avro_to_iceberg(json.loads(text))
    paths: dict[int, tuple[int, ...]] = {}
    for position, field in enumerate(schema.fields):
        paths[field.field_id] = (position,)
        inner = field.field_type.fields if isinstance(field.field_type, StructType) else ()
        paths |= {part.field_id: (position, number) for number, part in enumerate(inner)}
    return (
        construct_reader(schema),
        Form(schema=text, writer=_with_quick_maps(construct_writer(schema))),
        paths,
    )


@lru_cache(maxsize=128)
def _reader(schema: str, kind: Kind) -> Reader:
    """Return the decoder of records that were written with *schema*, the JSON in Avro's header."""
    written = AvroSchemaConversion().avro_to_iceberg(json.loads(schema))
    return resolve_reader(written, kind.schema, dict(kind.types), dict(kind.enums))
