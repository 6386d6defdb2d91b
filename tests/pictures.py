"""Make the pictures of the page in Airflow's UI for the docs: ``python -m tests.pictures [FOLDER]``.

A real Airflow, a store with a week of the demo's tables, and a browser that takes a restatement from its plan to its
way back. Run it when the page looks different.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import ViewportSize, expect

from airflow_provider import Cadence, CheckFailed, Interval, Job, Settings, Table, row_count, state
from airflow_provider.coordination.service import EpochService
from tests.restated_rides import Rides
from tests.system.browser import LIMIT_MS, SCREENSHOTS, Visitor, chromium
from tests.system.page_decisions import (
    count_approve_and_publish,
    open_from_a_plan,
    revert_with_readers,
    stage,
)
from tests.system.page_views import look, row
from tests.system.page_world import PATIENT, RENTALS, begin, commit, page_world, write

FOLDER = Path(__file__).parents[1] / "docs" / "pictures"
DOMAIN = "nyc"
ORIGIN = datetime(2013, 2, 2, tzinfo=UTC)
WEEK = Cadence("@weekly")
FLIGHTS, CARRIERS, ROUTES = (Table(name, DOMAIN) for name in ("flights", "carrier_daily", "route_daily"))
DELAYS, REPORT, WEEKLY = (
    Table(name, DOMAIN, kind="full") for name in ("delay_by_weather", "daily_report", "airport_weekly")
)
DAILY = {"cadence": "@daily", "origin": ORIGIN, "on_rerun": "new_revision"}
LOAD = Job("flights", outputs=[FLIGHTS], **DAILY)
SCORE = Job("scorecards", inputs=[FLIGHTS], outputs=[CARRIERS, ROUTES], **DAILY)
DELAY = Job("delay_by_weather", inputs=[state(FLIGHTS)], outputs=[DELAYS], **DAILY)
TELL = Job(
    "daily_report",
    inputs=[state(CARRIERS), DELAYS],
    outputs=[REPORT],
    checks=[row_count(REPORT, at_least=1)],
    **DAILY,
)
SUM_UP = Job("airport_week", inputs=[ROUTES], outputs=[WEEKLY], cadence=WEEK, origin=WEEK.floor(ORIGIN))
TALL: ViewportSize = {"width": 1440, "height": 1080}


def fill(settings: Settings) -> None:
    """Compute a week, with one day computed again, one refused by a check and two that are on their way."""
    with EpochService.open(settings, defaults=PATIENT) as service:
        for number in range(2, 8):
            commit(service, LOAD, _day(number), dag="nyc_flights", rows=800 + 7 * number)
        commit(service, LOAD, _day(4), dag="nyc_flights", rows=450, cleared=1)
        for number in range(2, 8):
            commit(service, SCORE, _day(number), dag="nyc_scorecards", rows=14)
        for number in range(2, 7):
            commit(service, DELAY, _day(number), dag="nyc_delays", rows=6)
        for number in range(2, 6):
            commit(service, TELL, _day(number), dag="nyc_report", rows=1)
        with suppress(CheckFailed):
            commit(service, TELL, _day(6), dag="nyc_report", rows=0)
        week = Interval(WEEK.floor(ORIGIN), WEEK.floor(ORIGIN) + timedelta(days=7))
        commit(service, SUM_UP, week, dag="nyc_week", rows=3)
        write(service, begin(service, DELAY, _day(7), dag="nyc_delays"), DELAYS.name, rows=6)
        begin(service, LOAD, _day(8), dag="nyc_flights")
        Rides(service, RENTALS).commit(1, 2, 3)


def _day(number: int) -> Interval:
    start = datetime(2013, 2, number, tzinfo=UTC)
    return Interval(start, start + timedelta(days=1))


def main(folder: Path) -> None:
    """Keep a light and a dark picture of the grid, and of each step of a restatement, in *folder*."""
    expect.set_options(timeout=LIMIT_MS)
    os.environ[SCREENSHOTS] = str(folder)
    with (
        TemporaryDirectory(prefix="nyc-") as home,
        chromium() as browser,
        page_world(Path(home), fill, makes_rows=False) as world,
        Visitor.come(browser, world.base_url) as admin,
    ):
        admin.sign_in("admin", world.passwords["admin"])
        _look_at_the_week(admin)
        name = open_from_a_plan(admin)
        stage(world, name)
        count_approve_and_publish(admin, name)
        revert_with_readers(admin, world, name)


def _look_at_the_week(admin: Visitor) -> None:
    usual = admin.page.viewport_size
    assert usual is not None
    admin.page.set_viewport_size(TALL)
    page = look(admin, domain=DOMAIN)
    row(page, REPORT.name).get_by_role("button").nth(4).click()
    page.get_by_role("region", name="Epoch").get_by_text("Next step").wait_for()
    page.mouse.move(0, 0)
    admin.pictures("page")
    admin.page.set_viewport_size(usual)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
