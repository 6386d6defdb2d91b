"""The kind of a table answers what it does; no other module asks which member it is."""

from __future__ import annotations

import ast

from tests.architecture.sources import PACKAGE, module_name


def _comparisons(tree: ast.AST) -> list[int]:
    """Return the lines that compare something with a member of TableKind."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare)
        for side in (node.left, *node.comparators)
        if isinstance(side, ast.Attribute)
        and isinstance(side.value, ast.Name)
        and side.value.id == "TableKind"
    ]


def test_no_module_compares_with_a_kind_of_table() -> None:
    found = {
        module_name(path): lines
        for path in sorted(PACKAGE.rglob("*.py"))
        if path != PACKAGE / "domain" / "table_kind.py" and not path.is_relative_to(PACKAGE / "testing")
        if (lines := _comparisons(ast.parse(path.read_text())))
    }
    assert found == {}


def test_a_comparison_is_found() -> None:
    assert _comparisons(ast.parse("a = 1\nb = kind is not TableKind.FULL")) == [2]
