"""Output of commands: tables and facts for people; JSON, YAML and plain columns for programs.

Output for people is as wide as the terminal, or as ``COLUMNS`` says; longer text continues in the next line. Without a
terminal and without ``COLUMNS`` lines are not broken, so that ``grep`` finds them.
"""

from __future__ import annotations

import json
import os
import re
import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from airflow.cli.simple_table import SimpleTable
from airflow.utils import yaml
from rich.console import Console, ConsoleRenderable, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

_UNBOUNDED = 1_000_000
"""Width of an output whose lines are not broken."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_TIE = "\ufdd0"
"""A blank at which no line ends: a character that Unicode reserves for programs, and that is printed as a blank."""
_EMPTY: tuple[object, ...] = (None, "", (), [])


def answer(arguments: Namespace, value: Any, *parts: RenderableType) -> None:
    """Print *parts* for people or the whole *value* for programs, as option ``-o`` says."""
    if arguments.output == "json":
        sys.stdout.write(json.dumps(value, indent=2, default=str, ensure_ascii=False) + "\n")
    elif arguments.output == "yaml":
        data = json.loads(json.dumps(value, default=str))
        sys.stdout.write(yaml.dump(data, sort_keys=False, allow_unicode=True))
    elif arguments.output == "plain":
        _print(_UNBOUNDED, _plain(value))
    else:
        show(*parts)


def show(*parts: RenderableType) -> None:
    """Print *parts* for people, with an empty line between two of them."""
    _print(_width(), parts)


def facts(known: Mapping[str, object]) -> RenderableType:
    """Lay out names and values; leave out empty values, and give each item of several a line."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    for name, value in known.items():
        if value not in _EMPTY:
            grid.add_row(Text(name), _items(value) if isinstance(value, list | tuple) else text(value))
    return grid


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str = "") -> RenderableType:
    """Lay out rows as Airflow's commands do. None is an empty cell; a column of numbers is right-justified."""
    cells = [list(row) for row in rows]
    laid = SimpleTable(show_header=True, caption=None)
    for name, column in zip(columns, zip(*cells, strict=True), strict=True) if cells else ():
        numbers = all(value is None or isinstance(value, int) for value in column)
        laid.add_column(Text(name), overflow="fold", justify="right" if numbers else "left")
    for row in cells:
        laid.add_row(*map(_cell, row))
    return Group(heading(title), laid) if title else laid


def block(title: str, *parts: RenderableType) -> RenderableType:
    """Lay out *parts* indented below a heading."""
    return Group(heading(title), *map(indented, parts))


def lines(*parts: RenderableType) -> RenderableType:
    """Lay out *parts* without an empty line between them."""
    return Group(*parts)


def heading(title: str) -> Text:
    """Return a line that stands out on a terminal."""
    return text(title, style="bold")


def indented(part: object) -> RenderableType:
    """Move *part* two columns to the right, with all lines that it takes."""
    return Padding(_cell(part), (0, 0, 0, 2), expand=False)


def text(value: object, *, style: str = "") -> Text:
    """Return *value* as text that is printed character by character.

    Rich would read ``[…]`` as markup and drop it. Control characters, which a terminal obeys, are escaped.
    """
    told = "" if value is None else str(value)
    return Text(_CONTROL.sub(lambda found: repr(found[0])[1:-1], told), style=style, overflow="fold")


def moment(time: datetime | None, *, seconds: bool = False) -> str:
    """Return a time without its zone, which is UTC; a barrier without seconds that are zero."""
    if time is None:
        return ""
    utc = time.astimezone(UTC)
    return tied(f"{utc:%Y-%m-%d %H:%M:%S}" if utc.second or seconds else f"{utc:%Y-%m-%d %H:%M}")


def tied(words: str) -> str:
    """Let *words* stay in one line, if they fit."""
    return words.replace(" ", _TIE)


def _cell(value: object) -> RenderableType:
    """Return *value* as text, unless it is laid out already."""
    return value if isinstance(value, ConsoleRenderable) else text(value)


def _items(values: Sequence[object]) -> RenderableType:
    """Lay out several values as a list, a single one without its dash."""
    if len(values) == 1:
        return text(values[0])
    grid = Table.grid(padding=(0, 1, 0, 0))
    for value in values:
        grid.add_row("-", text(value))
    return grid


def _plain(value: Any) -> Iterator[RenderableType]:
    """Lay out all of *value* in columns without lines: single values first, then each list of records."""
    records = {"": value} if isinstance(value, list) else {}
    single = {}
    for name, part in () if isinstance(value, list) else value.items():
        if isinstance(part, list) and part and isinstance(part[0], dict):
            records[name] = part
        else:
            single[name] = part
    if single:
        yield _columns(single.items())
    for rows in records.values():
        yield _columns([list(rows[0]), *(row.values() for row in rows)]) if rows else Text("No data found")


def _columns(rows: Iterable[Iterable[object]]) -> RenderableType:
    grid = Table.grid(padding=(0, 2, 0, 0))
    for row in rows:
        grid.add_row(*(text(_line(value)) for value in row))
    return grid


def _line(value: object) -> str:
    """Return *value* in one line; several values with commas between them, as Airflow's ``plain`` has them."""
    if isinstance(value, list):
        return ",".join(map(_line, value))
    told = json.dumps(value, default=str) if isinstance(value, dict) else "" if value is None else str(value)
    return told.replace("\n", "\\n").replace("\t", "\\t")


def _width() -> int | None:
    """Return the width of lines; None leaves it to rich, which asks the terminal."""
    if sys.stdout.isatty():
        return None
    told = os.environ.get("COLUMNS", "")
    return int(told) if told.isdecimal() and int(told) else _UNBOUNDED


def _print(width: int | None, parts: Iterable[RenderableType]) -> None:
    """Print *parts* without the blanks by which rich fills lines up, so that a selection has none either."""
    console = Console(width=width, highlight=False, emoji=False, markup=False)
    with console.capture() as printed:
        for number, part in enumerate(parts):
            if number:
                console.print()
            console.print(part)
    told = [line.rstrip(" ") for line in printed.get().replace(_TIE, " ").split("\n")]
    sys.stdout.write("\n".join(told))
