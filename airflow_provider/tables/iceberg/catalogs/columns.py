"""Columns as Hive and Glue show them; engines take them from the table's metadata."""

from __future__ import annotations

from dataclasses import dataclass

from pyiceberg.schema import Schema, SchemaVisitor, visit
from pyiceberg.types import DecimalType, ListType, MapType, NestedField, PrimitiveType, StructType

_NAMES = {
    "long": "bigint",
    "time": "string",
    "timestamp": "timestamp",
    "timestamptz": "timestamp",
    "uuid": "string",
    "unknown": "void",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """Column of a table as a catalog shows it. :param comment: empty for none."""

    name: str
    type_name: str
    comment: str
    field_id: int
    optional: bool


def columns_of(schema: Schema) -> list[Column]:
    """Return the columns of *schema*."""
    return [
        Column(
            name=field.name,
            type_name=visit(field.field_type, _Names()),
            comment=field.doc or "",
            field_id=field.field_id,
            optional=field.optional,
        )
        for field in schema.fields
    ]


class _Names(SchemaVisitor[str]):
    def schema(self, schema: Schema, struct_result: str) -> str:  # noqa: ARG002
        return struct_result

    def struct(self, struct: StructType, field_results: list[str]) -> str:  # noqa: ARG002
        return f"struct<{','.join(field_results)}>"

    def field(self, field: NestedField, field_result: str) -> str:
        return f"{field.name}:{field_result}"

    def list(self, list_type: ListType, element_result: str) -> str:  # noqa: ARG002
        return f"array<{element_result}>"

    def map(self, map_type: MapType, key_result: str, value_result: str) -> str:  # noqa: ARG002
        return f"map<{key_result},{value_result}>"

    def primitive(self, primitive: PrimitiveType) -> str:
        if isinstance(primitive, DecimalType):
            return f"decimal({primitive.precision},{primitive.scale})"
        name = str(primitive).partition("[")[0].removesuffix("_ns")
        return "binary" if name in ("fixed", "binary") else _NAMES.get(name, name)
