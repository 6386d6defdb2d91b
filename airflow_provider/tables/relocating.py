"""Relocation of a warehouse: table files name each other by absolute URIs, which change with the folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from airflow_provider.tables.locations import plain_scheme
from airflow_provider.tables.storage import as_uri


@dataclass(frozen=True, kw_only=True, slots=True)
class Relocation:
    """Change of folder.

    :param old: URI without a trailing slash. :param new: likewise, and not within *old*.
    """

    old: str
    new: str

    def uri(self, text: str) -> str:
        """Return *text* with the new folder if it is a URI within the old one, otherwise unchanged."""
        plain, old = plain_scheme(as_uri(text)), plain_scheme(self.old)
        if plain == old or plain.startswith(f"{old}/"):
            return f"{self.new}{plain.removeprefix(old)}"
        return text

    def within(self, value: Any) -> Any:
        """Apply :meth:`uri` to all strings in *value*, a JSON document, except keys."""
        if isinstance(value, str):
            return self.uri(value)
        if isinstance(value, list):
            return [self.within(element) for element in value]
        if isinstance(value, dict):
            return {name: self.within(element) for name, element in value.items()}
        return value


@runtime_checkable
class Relocatable(Protocol):
    """Format whose files can be relocated."""

    def relocate(self, names: Relocation) -> Mapping[str, int]:
        """Rewrite the metadata files in ``names.new``, a copy of ``names.old``, to name files in the new folder.

        Idempotent, also after a crash in its midst. Data files stay as they are.

        :return: sizes in bytes of the manifests, by their URIs in the new folder.
        """
