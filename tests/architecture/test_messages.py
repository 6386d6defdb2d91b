"""What errors, help texts and logs point to is there for a user who has the package and no checkout."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.architecture.sources import PACKAGE, ROOT


def _texts(path: Path) -> list[tuple[int, str]]:
    """Return the line and the text of each string of a module, but its docstrings."""
    module = ast.parse(path.read_text())
    docstrings = {
        id(node.value)
        for node in ast.walk(module)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    return [
        (node.lineno, node.value)
        for node in ast.walk(module)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings
    ]


def test_no_message_points_to_a_page_of_the_checkout() -> None:
    pointing = [
        f"{path.relative_to(ROOT)}:{line}: {text[:80]}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for line, text in _texts(path)
        if "docs/" in text or ".md" in text
    ]
    assert pointing == [], "say what to do, or name a command that says it"
