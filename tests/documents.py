"""The project's documents as tests see them: pages, links, and blocks of code."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
TUTORIAL = ROOT / "docs" / "tutorial.md"
HOW_TO = ROOT / "docs" / "how-to"
WALK = ROOT / "docs" / "explanation" / "walk.md"

_FENCE = re.compile(
    r"^(?:<!-- file: (?P<file>\S+) -->\n)?^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """A fenced block.

    :param language: what stands behind the fence.
    :param file: the file that a reader saves it as, empty for none: a comment before the block names it.
    """

    language: str
    file: str
    text: str


def pages() -> list[Path]:
    """Return all pages: the README, the changelog, the list of secrets and everything in ``docs``."""
    others = (README, ROOT / "CHANGELOG.md", ROOT / "deploy" / "secrets.md")
    return [*others, *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path, language: str | None = None) -> list[Block]:
    """Return the page's fenced blocks, those of one language or all."""
    found = [
        Block(language=match["language"], file=match["file"] or "", text=match["text"])
        for match in _FENCE.finditer(page.read_text(encoding="utf-8"))
    ]
    return [block for block in found if language in (None, block.language)]


def links(page: Path) -> list[str]:
    """Return the targets of the page's links, code left out."""
    return _LINK.findall(_FENCE.sub("", page.read_text(encoding="utf-8")))


def anchors(page: Path) -> set[str]:
    """Return the names by which links lead to the page's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", _FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
