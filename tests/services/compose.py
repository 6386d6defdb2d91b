"""``docker-compose.yml`` as Compose reads it: files merged, variables put in. Only what this project's file uses.

Merging and interpolation: ``13-merge.md`` and ``12-interpolation.md`` of <https://github.com/compose-spec/compose-spec>.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docker-compose.yml"
SECRETS = ROOT / "deploy" / "secrets.md"
_VARIABLE = re.compile(
    r"\$(?:(?P<dollar>\$)|\{(?P<name>[A-Za-z_]\w*)(?::?\?(?P<message>[^}]*))?\}|(?P<other>.?))"
)

Document = dict[str, Any]


class MissingVariable(ValueError):
    """A variable that the file needs has no value; Compose would not start either."""


def versions() -> dict[str, str]:
    """What ``--env-file versions.env`` gives."""
    lines = (ROOT / "versions.env").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def secret_names() -> set[str]:
    """Return the variables that deploy/secrets.md lists."""
    rows = [line for line in SECRETS.read_text().splitlines() if line.startswith("| `")]
    return {name for row in rows for name in re.findall(r"`([A-Z][A-Z0-9_]+)`", row.split("|")[1])}


def raw(*paths: Path) -> Document:
    """Read files, later ones over earlier ones: mappings are merged, all else is replaced."""
    document: Document = {}
    for path in paths or (FILE,):
        document = _merged(document, yaml.safe_load(path.read_text()))
    return document


def _merged(below: Any, above: Any) -> Any:
    if isinstance(below, dict) and isinstance(above, dict):
        return {**below, **{name: _merged(below.get(name), value) for name, value in above.items()}}
    return above


def interpolated(document: Document, variables: Mapping[str, str]) -> Document:
    """Put *variables* in.

    :raises MissingVariable: one has no value. :raises ValueError: another form than ``${NAME}`` and ``${NAME:?…}``.
    """
    found: Document = _walked(document, variables)
    return found


def _walked(node: Any, variables: Mapping[str, str]) -> Any:
    if isinstance(node, dict):
        return {name: _walked(value, variables) for name, value in node.items()}
    if isinstance(node, list):
        return [_walked(value, variables) for value in node]
    return _put_in(node, variables) if isinstance(node, str) else node


def _put_in(text: str, variables: Mapping[str, str]) -> str:
    def value(found: re.Match[str]) -> str:
        if found["dollar"]:
            return "$"
        if not found["name"]:
            raise ValueError(f"{text!r}: only ${{NAME}} and ${{NAME:?message}} are used here")
        if not variables.get(found["name"]):
            raise MissingVariable(f"{found['name']}: {found['message'] or 'has no value'}")
        return variables[found["name"]]

    return _VARIABLE.sub(value, text)


def texts(node: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield every text in *node* and where it is."""
    if isinstance(node, dict):
        for name, value in node.items():
            yield from texts(value, f"{path}.{name}" if path else str(name))
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from texts(value, f"{path}[{index}]")
    elif isinstance(node, str):
        yield path, node


def variables(document: Document) -> set[str]:
    """The names of all variables that *document* uses."""
    return {
        found["name"] for _, text in texts(document) for found in _VARIABLE.finditer(text) if found["name"]
    }
