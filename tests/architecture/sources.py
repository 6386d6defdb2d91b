"""The package's own source files, read as text and syntax trees: nothing is imported to look at them."""

from __future__ import annotations

import ast
import configparser
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "airflow_provider"
ROOMS = tuple(sorted(path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()))


def module_name(path: Path) -> str:
    """Name the module that *path* is, for example ``airflow_provider.domain.epoch``."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


RUN_BY_ALEMBIC = "airflow_provider.stores.sql.migrations."
"""Scripts that only work inside an Alembic command."""


def modules(*prefixes: str) -> list[str]:
    """List the package's modules, those in or under one of *prefixes* (``stores.sql``), all when none is given."""
    names = sorted(module_name(path) for path in PACKAGE.rglob("*.py"))
    names = [name for name in names if not name.startswith(RUN_BY_ALEMBIC)]
    if not prefixes:
        return names
    wanted = tuple(f"airflow_provider.{prefix}" for prefix in prefixes)
    return [
        name for name in names if any(name == package or name.startswith(f"{package}.") for package in wanted)
    ]


@cache
def imports_of(path: Path) -> tuple[tuple[int, str], ...]:
    """Return line and full name of everything that *path* imports, also inside functions and for types only."""
    return tuple(_imports_in(ast.parse(path.read_text(), filename=str(path))))


def _imports_in(module: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def texts_in(module: ast.Module) -> list[tuple[int, str]]:
    """Return the line and the text of each string of a module, but its docstrings."""
    docstrings = {id(node.value) for node in ast.walk(module) if isinstance(node, ast.Expr)}
    return [
        (node.lineno, node.value)
        for node in ast.walk(module)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings
    ]


def tracked_files() -> list[Path]:
    """List the files that git tracks and that still exist."""
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True)
    return [ROOT / name for name in listing.stdout.split("\0") if name and (ROOT / name).is_file()]


def setup_cfg() -> configparser.ConfigParser:
    """Read setup.cfg."""
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    return parser
