"""Where a module shows that it knows which metadata store it has: read from syntax trees, nothing is imported.

What is protected follows from the folder of the stores: a new one is protected as soon as it lies there.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOM = "airflow_provider.stores"
OPEN = {
    "base": "the contract",
    "codec": "records as bytes, alike for all stores",
    "declarations": "by what declarations are told apart, alike for all stores",
    "connecting": "what a connection's fields have in common",
    "factory": "opens a store by its URL, and asks it what its callers want to know",
    "hosts": "which hosts are this one",
    "schema_status": "how a schema stands, alike for all stores",
}
"""Modules that may be imported from above, and why; whatever else lies in the room is protected."""

_WORD_OF_ITS_OWN = {"memory"}
"""Schemes that are also words, and the name of a table format: only as the beginning of a URL do they name a store."""

_FOR_ALL = {"airflow_provider", "sqlalchemy", "alembic", "msgspec", "tenacity"}
"""Imported by stores, and by others for other reasons; whatever else a store imports is its driver."""

_TEXT_TESTS = {
    "startswith",
    "endswith",
    "find",
    "index",
    "count",
    "partition",
    "removeprefix",
    "search",
    "match",
}
_SHORTEST_PART = 3
"""From so many letters on a part of a store's word stands for it where a text is held against it."""

_CONTRACT = ("MetadataReader", "MetadataStore")
_A_STORE = re.compile(r"(.*\.)?_?(store|reader)")
"""How a store is called in code that has one."""

_LOOKS = {"hasattr", "getattr", "vars", "dir", "type"}
_IDENTITY = {"__class__", "__name__", "__qualname__", "__module__", "__mro__"}


@dataclass(frozen=True)
class Stores:
    """What names a store.

    :param modules: protected ones. :param words: backends, schemes, classes and drivers.
    :param drivers: libraries that only stores import. :param contract: what every store has.
    """

    modules: frozenset[str]
    words: frozenset[str]
    drivers: frozenset[str]
    schemes: frozenset[str]
    contract: frozenset[str]

    @classmethod
    def of(cls, folder: Path) -> Stores:
        """Read them from the room's *folder*."""
        entries = {
            path.stem for path in folder.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()
        }
        protected = entries - set(OPEN) - {"__init__"}
        files = [
            path
            for path in folder.rglob("*.py")
            if path.relative_to(folder).with_suffix("").parts[0] in protected
        ]
        trees = [ast.parse(path.read_text()) for path in files]
        classes = {node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
        schemes = set(_constants(trees, {"scheme"}))
        words = {word for scheme in schemes for word in (scheme, scheme.partition("+")[0])}
        words |= set(_constants(trees, {"backend"})) | {one for one in classes if one.endswith("Store")}
        drivers = {name for tree in trees for name in _libraries(tree) if _is_driver(name, words)}
        words |= drivers
        return cls(
            drivers=frozenset(drivers),
            modules=frozenset(f"{ROOM}.{one}" for one in protected),
            words=frozenset(word.lower() for word in words - _WORD_OF_ITS_OWN),
            schemes=frozenset(schemes),
            contract=frozenset(_members(ast.parse((folder / "base.py").read_text()))),
        )

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """What names one of them in a text: the beginning of a URL, a word of its own, a module."""
        urls = "|".join(re.escape(one) for one in sorted(self.schemes))
        words = "|".join(re.escape(one) for one in sorted(self.words | self.modules))
        return re.compile(rf"(?<![\w+])(?:{urls}):|(?<!\w)(?:{words})(?!\w)", re.IGNORECASE)

    def is_protected(self, name: str) -> bool:
        return any(name == one or name.startswith(f"{one}.") for one in self.modules | self.drivers)

    def has_part(self, text: str) -> bool:
        """Whether *text* is a part of a store's word."""
        part = text.lower().strip(":/+ ")
        return len(part) >= _SHORTEST_PART and any(
            part in word for word in self.words - _WORD_OF_ITS_OWN if part not in _WORD_OF_ITS_OWN
        )


def _libraries(tree: ast.Module) -> Iterator[str]:
    yield from (name.partition(".")[0] for name in _all_imported(tree))


def _is_driver(name: str, words: set[str]) -> bool:
    """Whether a library of a store is there for it alone; of Python's own, the one that is called like a store."""
    if name in sys.stdlib_module_names:
        return any(name.startswith(word) for word in words)
    return name not in _FOR_ALL


def _members(base: ast.Module) -> Iterator[str]:
    """Names of the methods and attributes that the contract declares."""
    for owner in base.body:
        for node in owner.body if isinstance(owner, ast.ClassDef) and owner.name in _CONTRACT else []:
            if isinstance(node, ast.FunctionDef):
                yield node.name
            elif isinstance(node, ast.AnnAssign):
                yield ast.unparse(node.target)


def _constants(trees: list[ast.Module], names: set[str]) -> Iterator[str]:
    """Texts that are given to *names* in the body of a class."""
    for tree in trees:
        for owner in ast.walk(tree):
            for node in owner.body if isinstance(owner, ast.ClassDef) else []:
                targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
                value = getattr(node, "value", None)
                named = any(isinstance(one, ast.Name) and one.id in names for one in targets)
                if named and isinstance(value, ast.Constant) and isinstance(value.value, str):
                    yield value.value


def knowledge(source: str, stores: Stores) -> Iterator[tuple[int, str]]:
    """Yield line and kind of everything in *source* by which it tells one store from another."""
    tree = ast.parse(source)
    texts = _docstrings(tree)
    has_store = any(one.rpartition(".")[2] in {*_CONTRACT, "open_store"} for one in _all_imported(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from (
                (node.lineno, f"imports {name}") for name in _imported(node) if stores.is_protected(name)
            )
            yield from ((node.lineno, f"takes {name}, which is the factory's own") for name in _private(node))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in texts:
            yield from ((node.lineno, f"names {word!r}") for word in _named(node.value, stores))
        elif isinstance(node, ast.BinOp | ast.JoinedStr) and (joined := _joined(node)):
            yield from ((node.lineno, f"names {word!r}") for word in _named(joined, stores))
        elif isinstance(node, ast.Attribute) and _is_private_of_another(node):
            yield node.lineno, f"uses {ast.unparse(node)}, a field of another's"
        elif has_store and isinstance(node, ast.Attribute) and _A_STORE.fullmatch(ast.unparse(node.value)):
            if node.attr not in stores.contract:
                yield node.lineno, f"uses {ast.unparse(node)}, which the contract does not have"
        elif isinstance(node, ast.Compare | ast.Match | ast.Call):
            yield from _identities(node)
            yield from _parts(node, stores)
            yield from _sets(node)


def _is_private_of_another(node: ast.Attribute) -> bool:
    """Whether it reaches behind the front of something that has a store, or of a store."""
    private = node.attr.startswith("_") and not node.attr.startswith("__")
    if not private or ast.unparse(node.value) in {"self", "cls"}:
        return False
    return bool(_A_STORE.fullmatch(ast.unparse(node.value)) or _A_STORE.fullmatch(node.attr))


def _parts(node: ast.Compare | ast.Match | ast.Call, stores: Stores) -> Iterator[tuple[int, str]]:
    """Texts that are held against a part of a store's word."""
    if isinstance(node, ast.Compare):
        tested: list[ast.expr] = [node.left, *node.comparators]
        tested += [
            one for each in tested if isinstance(each, ast.Set | ast.Tuple | ast.List) for one in each.elts
        ]
    elif isinstance(node, ast.Match):
        tested = [
            one.value for case in node.cases for one in ast.walk(case) if isinstance(one, ast.MatchValue)
        ]
    else:
        tests = isinstance(node.func, ast.Attribute) and node.func.attr in _TEXT_TESTS
        tested = node.args if tests else []
    for one in tested:
        text = one.value if isinstance(one, ast.Constant) else _joined(one)
        if isinstance(text, str) and stores.has_part(text):
            yield node.lineno, f"looks for {text!r}"


def _sets(node: ast.Compare | ast.Match | ast.Call) -> Iterator[tuple[int, str]]:
    """Decisions on all capabilities at once, which are a store's face; one may be asked for."""
    asks_for_one = isinstance(node, ast.Compare) and all(
        isinstance(one, ast.In | ast.NotIn) for one in node.ops
    )
    if isinstance(node, ast.Compare):
        subjects: list[ast.AST] = [node.left, *([] if asks_for_one else node.comparators)]
    elif isinstance(node, ast.Match):
        subjects = [node.subject]
    else:
        subjects = [*node.args, *([node.func.value] if isinstance(node.func, ast.Attribute) else [])]
    for subject in subjects:
        if any(isinstance(one, ast.Attribute) and one.attr == "capabilities" for one in ast.walk(subject)):
            yield node.lineno, f"decides on {ast.unparse(subject)}"


def _all_imported(tree: ast.Module) -> list[str]:
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    return [name for node in nodes for name in _imported(node)]


def _joined(node: ast.AST) -> str:
    """The text that constants make, added or in an f-string; the rest is left out."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _joined(node.left) + _joined(node.right)
    if isinstance(node, ast.JoinedStr):
        return "".join(map(_joined, node.values))
    return _joined(node.value) if isinstance(node, ast.FormattedValue) else ""


def _imported(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [f"{node.module}.{alias.name}" for alias in node.names]


def _private(node: ast.Import | ast.ImportFrom) -> list[str]:
    factory = f"{ROOM}.factory"
    return [
        name
        for name in _imported(node)
        if name.startswith(f"{factory}._")
        or (name.startswith(f"{factory}.") and name.rpartition(".")[2].isupper())
    ]


def _named(text: str, stores: Stores) -> Iterator[str]:
    """Words of *text* that name a store: the beginning of its URLs, its backend, its class, its module."""
    yield from sorted({found.lower() for found in stores.pattern.findall(text)})


def _identities(node: ast.Compare | ast.Match | ast.Call) -> Iterator[tuple[int, str]]:
    """Decisions on what a class is called, or on what only some stores have."""
    if isinstance(node, ast.Call):
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name in _LOOKS and node.args and _A_STORE.fullmatch(ast.unparse(node.args[0])):
            yield node.lineno, f"looks what {ast.unparse(node.args[0])} has"
        subjects: list[ast.AST] = [node.func] if isinstance(node.func, ast.Attribute) else []
    else:
        subjects = [node.left, *node.comparators] if isinstance(node, ast.Compare) else [node.subject]
    for subject in subjects:
        found = [
            one.attr for one in ast.walk(subject) if isinstance(one, ast.Attribute) and one.attr in _IDENTITY
        ]
        if found:
            yield node.lineno, f"decides on {ast.unparse(subject)}"


def _docstrings(tree: ast.Module) -> set[ast.AST]:
    """Texts that are statements of their own: nothing is decided on them."""
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
