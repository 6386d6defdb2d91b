"""What errors, help texts and logs point to is there for a user who has the package and no checkout."""

from __future__ import annotations

import ast
import re
from itertools import pairwise

from tests.architecture.sources import PACKAGE, ROOT, texts_in


def test_no_message_points_to_a_page_of_the_checkout() -> None:
    pointing = [
        f"{path.relative_to(ROOT)}:{line}: {text[:80]}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for line, text in texts_in(ast.parse(path.read_text()))
        if "docs/" in text or ".md" in text
    ]
    assert pointing == [], "say what to do, or name a command that says it"


def test_commands_in_messages_quote_names() -> None:
    """A person has chosen the name, and that of a group's barrier has a space: a shell takes it as one word."""
    bare = []
    for path in sorted(PACKAGE.rglob("*.py")):
        for text in ast.walk(ast.parse(path.read_text())):
            parts = text.values if isinstance(text, ast.JoinedStr) else []
            for before, shown in pairwise(parts):
                command = isinstance(before, ast.Constant) and re.search(
                    r"(restate [a-z]+|epochs (bind|skip|retire|revive|explain|show)|--(domain|table|job)) $",
                    str(before.value),
                )
                if command and isinstance(shown, ast.FormattedValue):
                    is_quoted = isinstance(shown.value, ast.Call) and "quote" in ast.unparse(shown.value.func)
                    if not is_quoted:
                        bare.append(f"{path.relative_to(ROOT)}:{shown.lineno}: {ast.unparse(shown)}")
    assert bare == [], "write {quote(name)}"
