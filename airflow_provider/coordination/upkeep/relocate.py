"""Relocation of records that name files, after the files were copied to another warehouse (R33)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from airflow_provider.coordination.upkeep.audit import missing_files
from airflow_provider.domain.defaults import Defaults
from airflow_provider.domain.errors import InvalidInput, Unavailable
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.records import Key, Kind, Stamped
from airflow_provider.domain.topology import Table
from airflow_provider.stores.base import MetadataReader
from airflow_provider.stores.codec import decode, encode
from airflow_provider.tables import storage
from airflow_provider.tables.factory import TableFormats
from airflow_provider.tables.locations import lies_in, names_files, path_name, same_warehouse
from airflow_provider.tables.relocating import Relocatable, Relocation

_NAMING = frozenset({Kind.TABLE, Kind.EPOCH, Kind.EVENT, Kind.VERSIONS, Kind.COMMIT})
"""Kinds of records that name files of tables. Files in other kinds are outside of the warehouse, or declared."""
_LISTED = 3


@dataclass(frozen=True, slots=True)
class Relocating:
    """Mapping of the file names of a domain from one warehouse to another; identity within one warehouse.

    :param names: None if files stay in place. :param sizes: see :meth:`Relocatable.relocate`.
    """

    names: Relocation | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def between(cls, domain: DomainName, old: str, new: str) -> Relocating:
        """:raises InvalidInput: the new warehouse cannot hold a copy."""
        if not old or not new or same_warehouse(old, new) or not (names_files(old) and names_files(new)):
            raise InvalidInput(
                field="warehouse",
                value=new,
                expected=f"another folder than {old or 'none'}, to which its files were copied",
                next_step="leave --warehouse out where both connections name one warehouse.",
            )
        folder = path_name(domain)
        names = Relocation(old=f"{old}/{folder}", new=f"{new}/{folder}")
        if lies_in(names.new, names.old):
            raise InvalidInput(field="warehouse", value=new, expected=f"a folder outside of {names.old}")
        return cls(names)

    def refuse_incomplete(self, formats: TableFormats, tables: Iterable[tuple[Table, str]]) -> None:
        """Refuse to move, before any change, if pointers of the copy are missing.

        :param tables: with their pointers.
        :raises InvalidInput: a format whose files cannot be relocated. :raises Unavailable: a missing pointer.
        """
        if self.names is None:
            return
        for table, pointer in tables:
            if not isinstance(formats[table.format], Relocatable):
                expected = "tables whose format can be led to another folder"
                raise InvalidInput(
                    field="warehouse", value=f"{table.name}: {table.format}", expected=expected
                )
            if storage.missing([self.names.uri(pointer)]):
                raise Unavailable(
                    f"table {table.name!r}: {self.names.uri(pointer)} is not there.",
                    next_step=f"copy {self.names.old} to {self.names.new}, whole, then move the domain.",
                    tables=(table.name,),
                    uri=self.names.uri(pointer),
                )

    def files(self, formats: TableFormats, kinds: Iterable[str]) -> Relocating:
        """Rewrite names of files within the copy's files; return the mapping for records, with their new sizes."""
        if self.names is None:
            return self
        sizes: dict[str, int] = {}
        for kind in kinds:
            table_format = formats[kind]
            if isinstance(table_format, Relocatable):
                sizes.update(table_format.relocate(self.names))
        return replace(self, sizes=sizes)

    def refuse_missing(
        self, reader: MetadataReader, formats: TableFormats, domain: DomainName, defaults: Defaults
    ) -> None:
        """:raises Unavailable: files that a reader may open were not copied (I6)."""
        if self.names is None:
            return
        gone = missing_files(reader, formats, domain, defaults=defaults)
        uris = [file.uri for found in gone for file in found.files]
        if uris:
            raise Unavailable(
                f"{len(uris)} files of domain {domain!r} were not copied, such as {', '.join(uris[:_LISTED])}.",
                next_step=f"copy them from {self.names.old}, then run the move again.",
                uris=tuple(uris),
            )

    def stamped(self, found: Stamped[Any]) -> Stamped[Any]:
        """Return the record as the receiving store has it."""
        return replace(found, record=self.record(found.key, found.record))

    def record(self, key: Key[Any], record: Any) -> Any:
        if self.names is None or key.kind not in _NAMING:
            return record
        plain = msgspec.json.decode(encode(key, record))
        led = self._resized(self.names.within(plain))
        return record if led == plain else decode(key, msgspec.json.encode(led))

    def uri(self, text: str) -> str:
        return text if self.names is None else self.names.uri(text)

    def _resized(self, value: Any) -> Any:
        """Return *value* with the sizes of the rewritten manifests."""
        if isinstance(value, list):
            return [self._resized(item) for item in value]
        if not isinstance(value, dict):
            return value
        led = {name: self._resized(item) for name, item in value.items()}
        if led.get("uri") in self.sizes and "size_bytes" in led:
            led["size_bytes"] = self.sizes[led["uri"]]
        return led
