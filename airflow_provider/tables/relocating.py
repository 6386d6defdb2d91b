"""Files of tables that were copied to another folder: they name each other by whole URIs, which change with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from airflow_provider.tables.locations import plain_scheme
from airflow_provider.tables.storage import as_uri


@dataclass(frozen=True, kw_only=True, slots=True)
class Relocation:
    """From which folder to which.

    :param old: URI without a slash at its end. :param new: likewise, and not within *old*.
    """

    old: str
    new: str

    def uri(self, text: str) -> str:
        """Return *text* as it is in the new folder where it names something in the old one, else as it is."""
        plain, old = plain_scheme(as_uri(text)), plain_scheme(self.old)
        if plain == old or plain.startswith(f"{old}/"):
            return f"{self.new}{plain.removeprefix(old)}"
        return text

    def within(self, value: Any) -> Any:
        """Return *value*, of JSON's types, with all its texts as :meth:`uri` has them."""
        if isinstance(value, str):
            return self.uri(value)
        if isinstance(value, list):
            return [self.within(one) for one in value]
        if isinstance(value, dict):
            return {name: self.within(one) for name, one in value.items()}
        return value


@runtime_checkable
class Relocatable(Protocol):
    """A format whose files can be led to another folder."""

    def relocate(self, names: Relocation) -> Mapping[str, int]:
        """Let the files in ``names.new``, a copy of ``names.old``, name each other where they are now.

        May be repeated, also after a crash in its midst. Files of rows stay as they are.

        :return: the sizes of the files that describe others, by their URIs in the new folder.
        """
