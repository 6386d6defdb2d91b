"""Facts about the rows of a file of another program that the file itself does not tell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, kw_only=True, slots=True)
class Added:
    """Facts about the rows of one file.

    :param constants: values of columns that the file may lack, by column id, as in Iceberg's partition tuples.
    :param named: columns with ids, by whose names those of a file without ids are known; None for no such names.
    :param size_bytes: size that the file had when it was added; its owner may have written it anew. None for own files.
    """

    constants: Mapping[int, Any] = field(default_factory=dict)
    named: pa.Schema | None = None
    size_bytes: int | None = None


OWN = Added()
"""Files of this package have all that is to be known."""
