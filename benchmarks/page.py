"""``bench.page``: time until the page in Airflow shows epochs, of a large domain beside a small one, in Chromium."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlencode

from playwright.sync_api import Browser, StorageState

from airflow_provider.coordination.service import Settings
from airflow_provider.stores.factory import upgrade_schema
from benchmarks.figures import figure, progress
from benchmarks.page_world import HOUR, ORIGIN, domain_of, write_world
from benchmarks.sizes import Size
from benchmarks.stores import directory
from tests.system.browser import Visitor, chromium
from tests.system.page_world import PageWorld, page_world

SMALL, LARGE = (10, 10), (1000, 1000)
"""Tables and epochs of each."""
_ROUNDS = 5
_PAUSE_S = 12.0
"""Time between rounds: the server's answers, which are kept for ten times their cost, are gone by then."""
_DAYS = 90

_NOTED = """() => {
  const watcher = new MutationObserver(() => {
    if (!document.querySelector(".ep-cell")) return;
    watcher.disconnect();
    requestAnimationFrame(() => requestAnimationFrame(() => { globalThis.painted = performance.now(); }));
  });
  watcher.observe(document, { childList: true, subtree: true });
}"""
"""Notes the time since the navigation at which the first epoch is painted."""


def first_paint_ms(
    browser: Browser, base_url: str, cookies: StorageState, domain: str, *, epochs: int
) -> float:
    """Open the page at all hourly *epochs* of *domain*; return the time until it shows some.

    The browser has no cache, and is signed in.
    """
    end = ORIGIN + epochs * HOUR
    query = {"domain": domain, "to": end.isoformat(), "from": (end - _DAYS * 24 * HOUR).isoformat()}
    with Visitor.come(browser, base_url, cookies=cookies) as visitor:
        visitor.page.add_init_script(f"({_NOTED})()")
        visitor.page.goto(f"/plugin/epochs?{urlencode(query)}")
        visitor.page.wait_for_function("globalThis.painted")
        return float(visitor.page.evaluate("globalThis.painted"))


def measure(size: Size = Size.FULL) -> None:
    """Print the median of each domain, by turns, and the large one's over the small one's."""
    sizes = [SMALL, LARGE if size is Size.FULL else (30, 30)]
    with _world(sizes) as world, chromium() as browser:
        with Visitor.come(browser, world.base_url) as visitor:
            visitor.sign_in("admin", world.passwords["admin"])
            cookies = visitor.page.context.storage_state()
        times: dict[tuple[int, int], list[float]] = {each: [] for each in sizes}
        for number in range(size.of(_ROUNDS + 1, 2)):
            for tables, epochs in sizes:
                taken = first_paint_ms(
                    browser, world.base_url, cookies, domain_of(tables, epochs), epochs=epochs
                )
                if number:  # the first visit of an API server imports the page's application
                    times[tables, epochs].append(taken)
                progress(f"page: {tables} x {epochs}: {taken:.0f} ms")
            time.sleep(size.of(_PAUSE_S, 0.0))
    small, large = map(statistics.median, times.values())
    for tables, epochs in sizes:
        figure(f"bench.page.first_paint_ms.{tables}x{epochs}", statistics.median(times[tables, epochs]))
    figure("bench.page.first_paint", large / small)


@contextmanager
def _world(sizes: list[tuple[int, int]]) -> Iterator[PageWorld]:
    def content(settings: Settings) -> None:
        upgrade_schema(settings.store_url)
        for tables, epochs in sizes:
            write_world(settings.store_url, tables, epochs)

    with directory("page") as home, page_world(home, content, makes_rows=False) as world:
        yield world
