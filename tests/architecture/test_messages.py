"""What errors, help texts and logs point to is there for a user who has the package and no checkout."""

from __future__ import annotations

import ast

from tests.architecture.sources import PACKAGE, ROOT, texts_in


def test_no_message_points_to_a_page_of_the_checkout() -> None:
    pointing = [
        f"{path.relative_to(ROOT)}:{line}: {text[:80]}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for line, text in texts_in(ast.parse(path.read_text()))
        if "docs/" in text or ".md" in text
    ]
    assert pointing == [], "say what to do, or name a command that says it"
