"""The docs site without building it: its navigation has every page, its reference every name of the front door."""

from __future__ import annotations

import re

import pytest
import yaml

import airflow_provider
from tests.architecture.sources import ROOT

DOCS = ROOT / "docs"
SIGNATURES = DOCS / "reference" / "api"


class _Loader(yaml.SafeLoader):
    """Read ``mkdocs.yml``; its tags name Python objects, which no test needs."""


_Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda *_: None)


@pytest.fixture(scope="module")
def config() -> dict:
    return yaml.load((ROOT / "mkdocs.yml").read_text(), _Loader)  # noqa: S506 - a safe loader


def _entries(nav: object) -> list[str]:
    """Return the pages of a navigation, or of a part of it, in their order."""
    if isinstance(nav, str):
        return [nav]
    parts = nav.values() if isinstance(nav, dict) else nav
    assert isinstance(nav, dict | list)
    return [page for part in parts for page in _entries(part)]


def test_the_navigation_has_every_page_once(config: dict) -> None:
    pages = sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))
    assert sorted(_entries(config["nav"])) == pages, "mkdocs.yml: nav"


def test_the_site_is_strict_and_asks_no_other_host(config: dict) -> None:
    assert config["strict"] is True
    assert config["theme"]["font"] is False
    assert set(config["validation"].values()) == {"warn"}
    named = [config.get(option, []) for option in ("extra_css", "extra_javascript")]
    assert [address for addresses in named for address in addresses if "//" in address] == []


def test_signatures_are_shown_of_every_name_in_the_groups_of_the_front_door() -> None:
    groups: dict[str, list[str]] = {}
    table = (ROOT / "airflow_provider" / "__init__.py").read_text().partition("_HOMES = {")[2]
    for comment, name in re.findall(
        r"^    (?:# (.+)|\"(\w+)\": )", table.partition("\n}\n")[0], re.MULTILINE
    ):
        if comment:
            group = groups.setdefault(comment.lower().replace(" ", "-"), [])
        else:
            group.append(name)
    shown = {
        page.stem: re.findall(r"^::: airflow_provider\.(\w+)$", page.read_text(), re.MULTILINE)
        for page in SIGNATURES.glob("*.md")
    }
    assert shown == groups
    assert {name for names in shown.values() for name in names} == set(airflow_provider.__all__)


def test_pictures_are_small_and_used() -> None:
    texts = [page.read_text() for page in (ROOT / "README.md", *DOCS.rglob("*.md"))]
    pictures = list((DOCS / "pictures").iterdir())
    assert [picture.name for picture in pictures if picture.stat().st_size > 250_000] == []
    assert [picture.name for picture in pictures if not any(picture.name in text for text in texts)] == []


def test_pictures_that_pages_show_exist() -> None:
    """MkDocs follows the links of Markdown, and not those of ``<picture>``."""
    shown = [
        page.parent / target
        for page in (ROOT / "README.md", *DOCS.rglob("*.md"))
        for target in re.findall(r'(?:src|srcset)="([^"]+)"', page.read_text())
    ]
    assert shown
    assert [picture for picture in shown if not picture.is_file()] == []


def test_svg_pictures_carry_a_title_and_load_nothing() -> None:
    for picture in (DOCS / "pictures").glob("*.svg"):
        text = picture.read_text()
        assert "<title>" in text, picture.name
        assert re.findall(r"(?:href|src|url\()[=\"' ]*https?:", text) == [], picture.name
