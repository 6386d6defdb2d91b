"""A hook of MkDocs for ``make docs``: links that leave ``docs/`` become links to the repository, or its paths.

On a forge a link such as ``../README.md`` works as it stands. The site has no such page. Where ``mkdocs.yml`` names
the repository (``repo_url``), the link leads there; without it the link's text stays, with the path as code (in the
cells of a table as a tooltip: tables of many links would double their width).
"""  # noqa: INP001 - MkDocs loads it by its path

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

_LINK = re.compile(r"(?<!!)\[(?P<text>[^\[\]]*)\]\((?P<target>(?:\.\./)+[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """Rewrite the links of one page that lead out of ``docs/``; MkDocs itself checks all others."""
    docs = Path(config["docs_dir"]).resolve()
    folder = Path(page.file.abs_src_path).resolve().parent

    def rewritten(link: re.Match[str]) -> str:
        found = (folder / link["target"]).resolve()
        if found.is_relative_to(docs) or not found.exists():
            return link[0]
        path = found.relative_to(docs.parent)
        if config["repo_url"]:
            return (
                f"[{link['text']}]({config['repo_url'].rstrip('/')}/blob/main/{path}{link['anchor'] or ''})"
            )
        if str(path) in link["text"]:
            return link["text"]
        if markdown[markdown.rfind("\n", 0, link.start()) + 1] == "|":
            return f'<span title="{path}">{link["text"]}</span>'
        return f"{link['text']} (`{path}`)"

    return _LINK.sub(rewritten, markdown)
