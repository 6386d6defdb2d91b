"""What the browser's tests look for on the page."""

from __future__ import annotations

import re
from urllib.parse import quote

from playwright.sync_api import Locator, Page

from tests.system.browser import Visitor

READABLE = 4.5
"""Contrast of text with what is behind it, as WCAG 2 level AA asks for."""

CONTRAST = """element => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const seen = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = (color) => {
    const [red, green, blue] = color.map((part) => part / 255).map((part) =>
      part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  let behind = element;
  while (behind && seen(getComputedStyle(behind).backgroundColor)[3] < 255
    && getComputedStyle(behind).backgroundImage === "none") behind = behind.parentElement;
  const style = getComputedStyle(behind);
  const stripes = style.backgroundImage.match(/rgb[^)]*\\)|oklch[^)]*\\)/g);
  const text = light(seen(getComputedStyle(element).color));
  return Math.min(...(stripes ?? [style.backgroundColor]).map((color) => {
    const [dark, bright] = [text, light(seen(color))].sort((one, other) => one - other);
    return (bright + 0.05) / (dark + 0.05);
  }));
}"""


def look(visitor: Visitor, **query: str) -> Page:
    """Open the page and wait for what it shows."""
    wanted = "&".join(f"{name}={quote(value)}" for name, value in query.items())
    visitor.page.goto(f"/plugin/epochs?{wanted}")
    visitor.page.locator(".ep-axis, .ep-note:not([role=status])").first.wait_for()
    return visitor.page


def follow(page: Page, link: Locator) -> None:
    """Follow *link* in *page*: Airflow 3.1 opens those of a task in another tab."""
    if link.get_attribute("target") == "_blank":
        page.goto(link.get_attribute("href") or "")
    else:
        link.click()


def row(page: Page, table: str) -> Locator:
    return page.get_by_role("group", name=f"Epochs of {table}", exact=True)


def tables(page: Page) -> list[str]:
    return page.locator(".ep-name b").all_inner_texts()


def said(page: Page, table: str) -> dict[int, str]:
    """What the page says of a table's epochs, by the day on which they begin, without the CSNs."""
    names = [
        button.get_attribute("aria-label") or "" for button in row(page, table).get_by_role("button").all()
    ]
    found = [re.fullmatch(r"(.*), \d{4}-\d\d-(\d\d) 00:00 to .{16} UTC: (.*)", name) for name in names]
    assert {words[1] for words in found if words} == {table}
    return {int(words[2]): re.sub(r" at CSN \d+$", "", words[3]) for words in found if words}


def log_of(page: Page) -> Locator:
    """Entries of the state log in the panel."""
    return page.get_by_role("region", name="State log").locator("tbody tr")


def faint(page: Page) -> dict[str, float]:
    """Texts that do not stand out from what is behind them, by one call for all: there are hundreds."""
    texts = page.locator(
        ".ep :is(b, small, h1, h2, h3, p, li, summary, label, dt, dd, th, td, a, code, .ep-head, .ep-none,"
        " .ep-legend span, .ep-swatch, .ep-cell, .ep-badge, .ep-hint, .ep-button):not(svg *)"
    )
    contrasts = texts.evaluate_all(
        f"texts => texts.filter(text => text.innerText).map(text => [text.innerText, ({CONTRAST})(text)])"
    )
    assert contrasts, "the page has texts"
    return {text: ratio for text, ratio in contrasts if ratio < READABLE}
