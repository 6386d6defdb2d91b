"""An extension of griffe for ``make docs``: show the package's reStructuredText docstrings as Markdown."""  # noqa: INP001 - griffe loads it by its path

from __future__ import annotations

import re
from textwrap import dedent, indent
from typing import Any

from griffe import Attribute, Class, Docstring, Extension, GriffeLoader, Object

_ROLE = re.compile(r":(?:func|meth|class|mod|attr|data|exc):`~?\.?([^`]+)`")
_LITERAL = re.compile(r"(?<!`)``([^`]+)``(?!`)")
_CODE = re.compile(r"^( *)\.\. code-block:: (\w+)\n\n((?:\1 +.*\n?|\n)+)", re.MULTILINE)
_FIELD = re.compile(r"(?<=\S) +(?=:(?:param|raises|returns?|ivar)\b[^:\n]*: )")
_PLACE = re.compile(r"airflow_provider(?:\.\w+)+\.(?=[A-Za-z_]\w*$)")


def as_markdown(text: str) -> str:
    """Return a docstring with roles, literals and code blocks in Markdown, and each field on a line of its own."""
    text = _CODE.sub(_fenced, text)
    text = _ROLE.sub(lambda role: f"`{_PLACE.sub('', role[1])}`", text)
    text = _LITERAL.sub(r"`\1`", text)
    return _FIELD.sub("\n", text)


def _fenced(block: re.Match[str]) -> str:
    code = dedent(block[3]).strip("\n")
    return indent(f"```{block[2]}\n{code}\n```", block[1]) + "\n\n"


class MarkdownDocstrings(Extension):
    """Rewrite the docstring of every object that griffe has loaded."""

    def on_object(self, *, obj: Object, loader: GriffeLoader, **_: Any) -> None:  # noqa: ARG002 - griffe's signature
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)

    def on_class(self, *, cls: Class, loader: GriffeLoader, **_: Any) -> None:  # noqa: ARG002 - griffe's signature
        """Show each member of an enumeration, also where its name says all."""
        if "StrEnum" in map(str, cls.bases):
            for member in cls.members.values():
                if isinstance(member, Attribute) and member.docstring is None:
                    member.docstring = Docstring(f"As text: `{member.value}`.", parent=member)
