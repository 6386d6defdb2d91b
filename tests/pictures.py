"""Make the pictures of the page in Airflow's UI for the docs: ``python -m tests.pictures [FOLDER]``.

A real Airflow, a store with a week of the demo's tables and a restatement, and a browser. Run it when the page looks
different.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from airflow_provider import Cadence, CheckFailed, Interval, Job, Settings, Table, row_count, state
from airflow_provider.coordination.service import EpochService
from tests.restated_rides import Rides
from tests.system.browser import Visitor, chromium
from tests.system.page_world import PATIENT, begin, commit, page_world, write

FOLDER = Path(__file__).parents[1] / "docs" / "pictures"
DOMAIN, RIDES = "nyc", "rides"
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
WINDOW = {"width": 1440, "height": 1080}


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
        rides = Rides(service, RIDES)
        rides.commit(1, 2, 3)
        rides.open("harbour", needs_approval=True)
        rides.stage("harbour", 1, 2, 3)


def _day(number: int) -> Interval:
    start = datetime(2013, 2, number, tzinfo=UTC)
    return Interval(start, start + timedelta(days=1))


def main(folder: Path) -> None:
    """Keep a light and a dark picture of each view in *folder*."""
    with (
        TemporaryDirectory(prefix="nyc-") as home,
        chromium() as browser,
        page_world(Path(home), fill) as world,
    ):
        for scheme in ("light", "dark"):
            with Visitor.come(browser, world.base_url, scheme=scheme) as visitor:
                visitor.sign_in("admin", world.passwords["admin"])
                page = visitor.page
                page.set_viewport_size(WINDOW)  # type: ignore[arg-type]
                page.goto(f"/plugin/epochs?domain={DOMAIN}")
                row = page.get_by_role("group", name=f"Epochs of {REPORT.name}", exact=True)
                row.get_by_role("button").nth(4).click()
                page.get_by_role("region", name="Epoch").get_by_text("Next step").wait_for()
                page.mouse.move(0, 0)
                page.screenshot(path=folder / f"page-{scheme}.png")
                page.goto(f"/plugin/epochs?domain={RIDES}&restatement=harbour")
                page.get_by_role("button", name="Count rows").click()
                page.get_by_role("table", name="Rows added and removed by table").wait_for()
                page.mouse.move(0, 0)
                page.screenshot(path=folder / f"restatement-{scheme}.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
