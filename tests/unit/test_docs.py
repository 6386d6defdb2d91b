"""The documents against the code: links, rules, anomalies, defaults, commands."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
from datetime import timedelta
from pathlib import Path

import pytest

from airflow_provider.domain import defaults
from airflow_provider.domain.defaults import DEFAULTS, Defaults
from tests.documents import ROOT, anchors, blocks, links, pages

PROTOCOL = ROOT / "docs" / "protocol.md"
ANOMALIES = ROOT / "docs" / "anomalies.md"
DEFAULTS_PAGE = ROOT / "docs" / "reference" / "defaults.md"
RULES = {f"R{number}" for number in range(1, 42)}
FAMILIES = {
    "ISO": 10,
    "DER": 15,
    "ATT": 17,
    "UND": 8,
    "LEA": 10,
    "RES": 9,
    "MIC": 3,
    "AST": 1,
    "CAT": 2,
    "CHG": 5,
    "SRC": 4,
    "LIV": 2,
    "HA": 2,
    "FORK": 1,
}
UNITS = (
    ("day", timedelta(days=1)),
    ("hour", timedelta(hours=1)),
    ("minute", timedelta(minutes=1)),
    ("second", timedelta(seconds=1)),
    ("millisecond", timedelta(milliseconds=1)),
)


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert [target for target in links(page) if "://" not in target and not _leads(page, target)] == []


def _leads(page: Path, target: str) -> bool:
    """Whether a link from *page* leads to a file, and to a heading of it when it names one."""
    file, _, heading = target.partition("#")
    found = page.parent / file if file else page
    return found.exists() and (not heading or heading in anchors(found))


def test_the_protocol_names_where_the_code_decides() -> None:
    table = PROTOCOL.read_text().partition("## 13. ")[2]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")][2:]
    assert len(rows) > 40
    for question, files, names in rows:
        code = [(ROOT / "airflow_provider" / file).read_text() for file in re.findall("`(.+?)`", files)]
        defined = {name for text in code for name in _names(ast.parse(text))}
        assert code, question
        assert [name for name in re.findall("`(.+?)`", names) if name not in defined] == [], question


def _names(module: ast.Module) -> set[str]:
    """Names that *module* defines."""
    constants = (node.target for node in module.body if isinstance(node, ast.AnnAssign))
    return {
        *(target.id for target in constants if isinstance(target, ast.Name)),
        *(node.name for node in module.body if isinstance(node, ast.FunctionDef | ast.ClassDef)),
    }


def test_every_page_is_reached_from_the_readme() -> None:
    found, waiting = set(), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page not in found and page.suffix == ".md" and page.is_file():
            found.add(page)
            waiting += [
                (page.parent / target.split("#")[0]).resolve()
                for target in links(page)
                if "://" not in target
            ]
    assert sorted(str(page.relative_to(ROOT)) for page in pages() if page not in found) == []


def test_the_index_lists_every_page() -> None:
    index = ROOT / "docs" / "index.md"
    listed = {(index.parent / target).resolve() for target in links(index) if "://" not in target}
    assert [page for page in (ROOT / "docs").rglob("*.md") if page not in listed | {index}] == []


def test_each_decision_states_reason_and_alternatives() -> None:
    said = (r"^\*\*Decision\.\*\*", r"^\*\*(Why|Problem)\b", r"^\*\*What else was tried(\.\*\*|\*\*,)")
    missing = [
        f"{page.name}: {heading}"
        for page in sorted((ROOT / "docs" / "decisions").glob("*.md"))
        for heading in said
        if not re.search(heading, page.read_text(), re.MULTILINE)
    ]
    assert missing == []


def test_the_protocol_says_of_each_rule_how_it_stands() -> None:
    told = re.findall(
        r"^\*\*((?:R\d+(?:, )?)+) · (built|in part|not yet)", PROTOCOL.read_text(), re.MULTILINE
    )
    rules = [rule for names, _ in told for rule in names.split(", ")]
    assert sorted(rules) == sorted(RULES)


def _told_anomalies() -> dict[str, str]:
    """How each anomaly stands, by its id."""
    rows = [line.split(" | ") for line in ANOMALIES.read_text().splitlines() if line.startswith("| ")]
    return {row[0][2:].split()[0]: row[2] for row in rows if re.match(r"\| [A-Z]{2,4}\d", " | ".join(row))}


def test_each_anomaly_is_told_with_how_it_stands() -> None:
    told = _told_anomalies()
    assert set(told) == {
        f"{family}{number}" for family, many in FAMILIES.items() for number in range(1, many + 1)
    }
    asked_for = r"(?<=prevented) (from R[CR]|in a session, once told|by the address of a cut)$"
    assert {re.sub(asked_for, "", how) for how in told.values()} == {"prevented", "in part", "not yet"}


def test_anomalies_are_called_missing_exactly_if_untested() -> None:
    names = [
        name.lower()
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"def (test_\w+)", path.read_text())
    ]
    tested = {
        anomaly
        for anomaly in _told_anomalies()
        if any(re.search(rf"_{anomaly.lower()}(_|$)", name) for name in names)
    }
    assert tested, "no test is named after an anomaly"
    assert {anomaly for anomaly in tested if _told_anomalies()[anomaly] == "not yet"} == set()


def test_the_table_of_defaults_is_that_of_the_code() -> None:
    rows = [f"| `{name}` | {value} | {meaning} |" for name, value, meaning in _defaults()]
    found = [line for line in DEFAULTS_PAGE.read_text().splitlines() if line.startswith("| `")]
    assert found == rows, "\n".join(["docs/reference/defaults.md should say:", *rows])


def _defaults() -> list[tuple[str, str, str]]:
    body = ast.parse(inspect.getsource(defaults)).body
    (written,) = [node for node in body if isinstance(node, ast.ClassDef) and node.name == Defaults.__name__]
    meanings = [
        after.value.value
        for before, after in zip(written.body, written.body[1:], strict=False)
        if isinstance(before, ast.AnnAssign)
        and isinstance(after, ast.Expr)
        and isinstance(after.value, ast.Constant)
    ]
    names = [field.name for field in dataclasses.fields(Defaults)]
    assert len(names) == len(meanings)
    return [
        (name, _words(getattr(DEFAULTS, name)), _plain(str(meaning)))
        for name, meaning in zip(names, meanings, strict=True)
    ]


def _words(value: timedelta | int) -> str:
    if isinstance(value, int):
        return str(value)
    for unit, length in UNITS:
        if value % length == timedelta(0):
            number = value // length
            return f"{number} {unit}" + ("" if number == 1 else "s")
    raise AssertionError(f"no unit for {value}")


def _plain(docstring: str) -> str:
    return " ".join(re.sub(r":class:`(\w+)`", r"`\1`", docstring).replace("``", "`").split())


def test_files_and_functions_that_the_explanations_name_exist() -> None:
    named = re.compile(r"`((?:\w+/)+\w+\.py)`(?:\s+\(`([\w.]+)`(?:,\s+`([\w.]+)`)?\))?")
    for page in sorted((ROOT / "docs" / "explanation").glob("*.md")):
        for file, *names in named.findall(page.read_text()):
            path = next(place for place in (ROOT / "airflow_provider" / file, ROOT / file) if place.exists())
            text = path.read_text()
            for name in filter(None, names):
                assert re.search(rf"(def|class) {name.split('.')[-1]}\b", text), (
                    f"{page.name}: {file} has no {name}"
                )


def test_every_make_task_that_is_named_exists() -> None:
    tasks = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in pages():
        commands = "\n".join(block.text for block in blocks(page, "console"))
        inline = re.findall(r"`make ([a-z-]+)", page.read_text())
        assert {*re.findall(r"^make ([a-z-]+)", commands, re.MULTILINE), *inline} <= tasks, page


def test_every_command_of_the_package_that_is_named_exists() -> None:
    from airflow_provider.cli.definition import get_cli_commands

    (group,) = get_cli_commands()
    known = {subcommand.name for subcommand in group.subcommands}
    for page in pages():
        named = set(re.findall(r"airflow epochs ([a-z]+)", page.read_text()))
        assert named <= known, page


def test_every_option_of_a_command_is_told() -> None:
    """Those that several commands take are in a table, which says of each option who does not take it."""
    from airflow.cli.cli_config import ActionCommand, GroupCommand

    from airflow_provider.cli.definition import get_cli_commands

    def leaves(group: GroupCommand, before: str = "") -> list[tuple[str, ActionCommand]]:
        return [
            leaf
            for command in group.subcommands
            for leaf in (
                leaves(command, f"{before}{command.name} ")
                if isinstance(command, GroupCommand)
                else [(before + command.name, command)]
            )
        ]

    (group,) = get_cli_commands()
    assert isinstance(group, GroupCommand)
    commands = leaves(group)
    page = (ROOT / "docs" / "reference" / "cli.md").read_text()
    assert [
        name for name, _ in commands if f"`airflow epochs {name}" not in page and f"`{name}" not in page
    ] == []
    table = dict(re.findall(r"^\| `(--?[a-z-]+)[^|]*\| all(?: but )?([^|]*)\|", page, re.MULTILINE))
    for option in ("--conn-id", "--domain", "-o", "-v"):
        without = [name for name, command in commands if not any(option in arg.flags for arg in command.args)]
        assert sorted(re.findall(r"`([a-z ]+)`", table[option])) == sorted(without), option
    others = {
        flag for _, command in commands for arg in command.args for flag in arg.flags if flag.startswith("--")
    }
    assert [flag for flag in sorted(others - {"--output", "--verbose"}) if flag not in page] == []


def test_help_has_no_brackets_which_airflow_takes_for_markup() -> None:
    from airflow.cli.cli_config import Arg

    from airflow_provider.cli import declaring, definition, on_call

    helps = {
        name: value.kwargs.get("help", "")
        for module in (declaring, definition, on_call)
        for name, value in vars(module).items()
        if isinstance(value, Arg)
    }
    assert len(helps) > 10
    assert [name for name, text in helps.items() if "[" in text] == []


def test_every_task_that_a_message_names_exists() -> None:
    tasks = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    folders = ("airflow_provider", "demo", "spark_jobs", "dags", "benchmarks")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    named = {task: path for path in files for task in re.findall(r"`make ([a-z-]+)", path.read_text())}
    assert named
    assert {task: path for task, path in named.items() if task not in tasks} == {}
