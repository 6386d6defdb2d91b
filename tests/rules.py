"""Which test carries which rule of the protocol: ``python -m tests.rules`` writes docs/reference/rules.md anew.

A test says in its docstring whose breach it would notice: ``R13, R18: a reader commits …``.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROTOCOL = ROOT / "docs" / "protocol.md"
PAGE = ROOT / "docs" / "reference" / "rules.md"
FOLDERS = ("tests", "airflow_provider/testing/store_cases", "airflow_provider/testing/table_cases")
TAGS = re.compile(r"\s*([RI]\d+(?:,\s+[RI]\d+)*)(?:, section \d+)?:")
LEFT = re.compile(r"\*Not yet:\* (.+)$")
STANDING = re.compile(r"^\*\*((?:R\d+(?:, )?)+) · ([^*]+?)\.?\*\*\s+(.+?)(?=\n\n)", re.MULTILINE | re.DOTALL)
FRONT = """# Rules and their tests

Made by `python -m tests.rules` from the docstrings of the tests; a test fails when this page is not what it
makes. How a rule stands is said in [the protocol](../protocol.md). `pytest --rule R13` runs the tests of one rule.

"""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule as the protocol's page states it. :ivar standing: such as "built". :ivar text: its own words."""

    name: str
    standing: str
    text: str

    @property
    def missing(self) -> bool:
        return self.standing.startswith("not yet")

    @property
    def left(self) -> str:
        """What of it is not built, with the reason; empty when all of it is."""
        found = LEFT.search(self.text)
        return self.text if self.missing else found.group(1) if found else ""


def rules() -> list[Rule]:
    """The rules in their order."""
    found = [
        Rule(name, standing, " ".join(text.split()))
        for names, standing, text in STANDING.findall(PROTOCOL.read_text() + "\n\n")
        for name in names.split(", ")
    ]
    return sorted(found, key=lambda rule: int(rule.name[1:]))


def tags(docstring: str | None) -> tuple[str, ...]:
    """The rules and invariants that a docstring begins with."""
    found = TAGS.match(docstring or "")
    return tuple(re.split(r",\s+", found.group(1))) if found else ()


@cache
def tagged() -> dict[str, list[tuple[str, str]]]:
    """File and name of the tests of each rule and invariant."""
    found: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            for name, docstring in _tests(ast.parse(path.read_text())):
                for tag in tags(docstring):
                    found[tag].append((str(path.relative_to(ROOT)), name))
    return dict(found)


def tags_of(tests: Container[str]) -> list[str]:
    """The rules, then the invariants, that some tests, each as ``file::name``, carry."""
    found = {
        tag for tag, carriers in tagged().items() for path, name in carriers if f"{path}::{name}" in tests
    }
    return sorted(found, key=lambda tag: (tag.startswith("I"), int(tag[1:])))


def _tests(module: ast.Module) -> Iterator[tuple[str, str | None]]:
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield node.name, ast.get_docstring(node)


def page() -> str:
    """Return what docs/reference/rules.md must be: a table of all rules, then the tests of each."""
    carried = tagged()
    table = [
        f"| {_linked(rule.name, carried)} | {rule.standing} | {rule.left} | {_counted(carried.get(rule.name, []))} |"
        for rule in rules()
    ]
    invariants = sorted((name for name in carried if name.startswith("I")), key=lambda name: int(name[1:]))
    of_invariants = [f"| {_linked(name, carried)} | {_counted(carried[name])} |" for name in invariants]
    carriers = [name for name in (*(rule.name for rule in rules()), *invariants) if name in carried]
    lines = [
        FRONT + "| rule | | not built yet | tests |",
        "| --- | --- | --- | --- |",
        *table,
        "",
        "| invariant | tests |",
        "| --- | --- |",
        *of_invariants,
        *(line for name in carriers for line in ("", f"## {name}", "", *_listed(carried[name]))),
    ]
    return "\n".join(lines) + "\n"


def _linked(name: str, carried: Container[str]) -> str:
    return f"[{name}](#{name.lower()})" if name in carried else name


def _by_file(tests: list[tuple[str, str]]) -> Mapping[str, list[str]]:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for path, name in tests:
        if name not in found[path]:
            found[path].append(name)
    return found


def _counted(tests: list[tuple[str, str]]) -> str:
    files = _by_file(tests)
    return f"{sum(map(len, files.values()))} in {len(files)} files" if files else ""


def _listed(tests: list[tuple[str, str]]) -> Iterator[str]:
    for path, names in _by_file(tests).items():
        yield f"- [{Path(path).stem}](../../{path}): {', '.join(f'`{name}`' for name in names)}"


if __name__ == "__main__":
    PAGE.write_text(page())
