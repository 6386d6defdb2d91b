"""The page of tables and epochs as people see it: real Airflow, a login, a browser.

``PAGE_SCREENSHOTS=<folder>`` keeps a picture of each view.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from urllib.parse import quote

import pytest
from fastapi.routing import APIRoute
from playwright.sync_api import Browser, BrowserContext, StorageState, expect

from airflow_provider.plugins import grid as grid_package
from airflow_provider.plugins.grid.app import router
from benchmarks.page import first_paint_ms
from benchmarks.page_world import HOUR, ORIGIN
from tests.system.browser import LIMIT_MS, Visitor, chromium, profile
from tests.system.page_decisions import (
    count_approve_and_publish,
    look_at_restatements,
    open_from_a_plan,
    revert_with_readers,
    stage,
)
from tests.system.page_views import faint, follow, log_of, look, row, said, tables
from tests.system.page_world import (
    DOMAIN,
    FERRIES,
    FIRST,
    HARBOUR,
    ODD,
    ODD_DAG,
    ODD_TABLE,
    OTHER_DOMAIN,
    RENTALS,
    RIDES,
    SHIPS_STATES,
    STATES,
    TANDEMS,
    PageWorld,
    page_world,
)

expect.set_options(timeout=LIMIT_MS)
SIGNED_OUT = 401
Visit = Callable[..., AbstractContextManager[Visitor]]
STATIC = Path(grid_package.__file__).parent / "static"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def world(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageWorld]:  # noqa: ARG001 - without one nothing starts
    with page_world(tmp_path_factory.mktemp("page")) as world:
        yield world


@pytest.fixture
def stranger(browser: Browser, world: PageWorld) -> Iterator[Visitor]:
    with Visitor.come(browser, world.base_url) as visitor:
        yield visitor


@pytest.fixture(scope="module")
def cookies(browser: Browser, world: PageWorld) -> dict[str, StorageState]:
    """What each user's browser keeps of a login through Airflow's form."""
    kept = {}
    for user, password in world.passwords.items():
        with Visitor.come(browser, world.base_url) as visitor:
            visitor.sign_in(user, password)
            kept[user] = visitor.page.context.storage_state()
    return kept


@pytest.fixture(scope="module")
def visit(browser: Browser, world: PageWorld, cookies: dict[str, StorageState]) -> Iterator[Visit]:
    """Open a window for a signed in user; those of a user and scheme share a cache of Airflow's scripts."""
    profiles = dict[tuple[str, str], BrowserContext]()

    def open_window(user: str, scheme: str = "light") -> AbstractContextManager[Visitor]:
        if (user, scheme) not in profiles:
            profiles[user, scheme] = profile(browser, world.base_url, scheme=scheme, cookies=cookies[user])
        return Visitor.open(profiles[user, scheme], world.base_url)

    yield open_window
    for own in profiles.values():
        own.close()


@pytest.fixture
def viewer(visit: Visit, world: PageWorld) -> Iterator[Visitor]:
    """Signed in; at the end nothing was complained of, and no other host was asked."""
    with visit("viewer") as visitor:
        yield visitor
        assert visitor.errors == []
        assert visitor.hosts == {world.base_url}


# --- who gets in -----------------------------------------------------------------------------------------------


def test_without_a_login_every_route_refuses_and_the_page_asks_for_one(stranger: Visitor) -> None:
    routes = [route for route in router.routes if isinstance(route, APIRoute)]
    sent = {route.path: {"method": next(iter(route.methods)), "data": {}} for route in routes}
    answers = {
        path: stranger.page.request.fetch(f"/epochs{path}", **how).status for path, how in sent.items()
    }
    assert answers == dict.fromkeys(sent, SIGNED_OUT)
    stranger.page.goto("/plugin/epochs")
    stranger.page.wait_for_url(re.compile("/auth/login"))
    expect(stranger.page.locator("input[name=password]")).to_be_visible()
    assert stranger.page.locator(".ep").count() == 0


def test_a_task_leads_to_its_epochs_and_an_epoch_to_its_run(viewer: Visitor, world: PageWorld) -> None:
    page = viewer.page
    page.goto(f"/dags/make/runs/{quote(world.run)}/tasks/make/details")
    follow(page, page.get_by_role("link", name="Epochs", exact=True))
    page.wait_for_url(re.compile("/plugin/epochs"))
    cell = row(page, "rows").get_by_role("button")
    expect(cell).to_have_count(1)
    name = "rows, 2013-02-07 00:00 to 2013-02-08 00:00 UTC: committed, 1 row at CSN 1"
    expect(cell).to_have_accessible_name(name)
    cell.click()
    detail = page.get_by_role("region", name="Epoch")
    expect(detail).to_contain_text("revision 1: 1 row in 1 file")
    expect(log_of(page)).to_have_count(5)
    viewer.picture("from-the-task")
    detail.get_by_role("link").first.click()
    page.wait_for_url(re.compile("/dags/make/runs/"))


# --- what is seen ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", [pytest.param("light", marks=pytest.mark.slow), "dark"])
def test_every_state_is_shown_and_can_be_read(visit: Visit, world: PageWorld, scheme: str) -> None:
    with visit("viewer", scheme) as viewer:
        page = look(viewer, domain=DOMAIN)
        assert tables(page) == ["flights", "cancelled_flights", "weather", ODD_TABLE]
        assert said(page, "flights") == STATES
        assert said(page, "cancelled_flights") == {**STATES, 9: "open"}
        expect(row(page, "flights").locator(".ep-over")).to_have_count(1)
        legend = page.get_by_label("Legend").locator("span").all_inner_texts()
        states = {text.partition(",")[0] for text in (*STATES.values(), *SHIPS_STATES.values())}
        assert states <= {re.sub(r"^\W?\d?\s*", "", text) for text in legend}
        expect(page.locator(".ep-head")).to_contain_text("all times are UTC")
        expect(page.locator("html")).to_have_class(re.compile(scheme))

        row(page, "flights").get_by_role("button").nth(3).click()
        detail = page.get_by_role("region", name="Epoch")
        expect(detail).to_contain_text("repair the cause and run the task again")
        assert faint(page) == {}
        viewer.picture(f"states-{scheme}")
        assert viewer.errors == []
        assert viewer.hosts == {world.base_url}


@pytest.mark.parametrize("scheme", [pytest.param("light", marks=pytest.mark.slow), "dark"])
def test_page_tells_skips_failed_checks_and_retention(visit: Visit, scheme: str) -> None:
    with visit("viewer", scheme) as viewer:
        page = look(viewer, domain=HARBOUR)
        assert said(page, "ships") == SHIPS_STATES
        expect(row(page, "ships").locator(".ep-over")).to_have_count(1)
        later = dict.fromkeys(range(3, 8), "not begun")
        assert said(page, "barges") == {1: "committed, 3 rows", 2: "committed, 3 rows", **later}
        assert said(page, "tugs") == {2: "committed, 3 rows", **later}, "it was not there on the first day"
        assert said(page, "rowboats") == {1: "committed, 3 rows"}, "nothing more comes of it"
        expect(row(page, "wharves")).to_have_text("no epoch in this range")
        about = {name: page.locator(".ep-name", has_text=name) for name in ("ships", "rowboats", "pilots")}
        expect(about["ships"]).to_contain_text("daily, UTC · full table")
        expect(about["rowboats"]).to_contain_text("retired: the pier is closed (ada)")
        expect(about["pilots"]).to_contain_text("weekly, UTC")
        expect(about["pilots"]).to_contain_text("inactive since 2013-02-10 00:00")
        assert faint(page) == {}
        viewer.picture(f"harbour-{scheme}")

        detail = page.get_by_role("region", name="Epoch")
        row(page, "ships").get_by_role("button").nth(1).click()
        expect(detail).to_contain_text("no cut can be had at this barrier any more")
        expect(detail).to_contain_text("Was published")
        expect(detail).not_to_contain_text("Readers get")
        row(page, "ships").get_by_role("button").nth(3).click()
        expect(detail).to_contain_text("the harbour was closed")
        expect(log_of(page).first).to_contain_text("skip by ada / ")
        expect(detail.get_by_role("link")).to_have_count(0)
        viewer.picture(f"skipped-{scheme}")
        assert viewer.errors == []


def test_names_and_notes_are_shown_as_plain_text(viewer: Visitor) -> None:
    page = look(viewer, domain=DOMAIN)
    row(page, ODD_TABLE).get_by_role("button").first.click()
    detail = page.get_by_role("region", name="Epoch")
    expect(detail.get_by_role("heading", level=2)).to_have_text(ODD_TABLE)
    expect(detail).to_contain_text(ODD.name)
    expect(log_of(page).first).to_contain_text(f"{ODD_DAG} / ")
    expect(detail.get_by_role("link")).to_have_count(0)
    row(page, "flights").get_by_role("button", name=re.compile("^flights, 2013-02-08")).click()
    link = detail.get_by_role("link").first
    expect(link).to_contain_text("city_day / scheduled__")
    assert "/dags/city_day/runs/scheduled__2013-02-09T00%3A00%3A00%2B00%3A00" in (
        link.get_attribute("href") or ""
    )
    expect(log_of(page).last).to_contain_text("<img src=x")
    assert page.locator(".ep img").count() == 0
    assert page.evaluate("globalThis.planted") is None
    viewer.picture("odd-names")


@pytest.mark.slow
def test_many_epochs_are_scrolled_under_names_that_stay(viewer: Visitor) -> None:
    """Only what is on the screen is asked for and drawn; the keyboard reaches the rest all the same."""
    asked = list[str]()
    viewer.page.on("request", lambda request: asked.append(request.url))
    page = look(viewer, domain=DOMAIN)
    page.get_by_label("Range").select_option(label="30 days")
    frame, cells = page.locator(".ep-scroll"), row(page, "weather").get_by_role("button")
    expect(cells.last).to_have_accessible_name(re.compile("^weather, 2013-02-11 23:00"))
    frame.evaluate("one => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    width, room, at = frame.evaluate("one => [one.scrollWidth, one.clientWidth, one.scrollLeft]")
    assert width > room, "there is something to scroll"
    assert at == width - room, "the latest epochs are seen first"
    assert cells.count() < 11 * 24
    cells.last.focus()
    page.keyboard.press("Home")
    focused = page.locator(".ep-cell:focus")
    expect(focused).to_have_accessible_name(re.compile("^weather, 2013-02-01 00:00"))
    expect(focused).to_be_in_viewport()
    assert page.locator(".ep-name").nth(1).bounding_box()["x"] == pytest.approx(frame.bounding_box()["x"] + 1)  # type: ignore[index]
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "the page itself stays"
    assert any("from=2013-02-01" in url and "to=" in url for url in asked), "the other part was asked for"
    viewer.picture("thirty-days")
    page.keyboard.press("End")
    expect(focused).to_have_accessible_name(re.compile("^weather, 2013-02-11 23:00"))


def test_first_epochs_are_painted(
    browser: Browser, world: PageWorld, cookies: dict[str, StorageState]
) -> None:
    """What the benchmark of the page measures, on this world."""
    hours = (FIRST - ORIGIN) // HOUR + 11 * 24
    taken = first_paint_ms(browser, world.base_url, cookies["viewer"], DOMAIN, epochs=hours)
    assert 0 < taken < LIMIT_MS


def test_design_tokens_of_the_page_have_values_in_airflows(viewer: Visitor) -> None:
    """docs/decisions/page-without-build.md: an Airflow that renames one is met here, not by its users."""
    names = sorted(set(re.findall(r"--chakra-[\w-]+", (STATIC / "style.js").read_text())))
    page = look(viewer, domain=DOMAIN)
    values = page.evaluate(
        "names => names.map(name => getComputedStyle(document.querySelector('.ep')).getPropertyValue(name))",
        names,
    )
    assert len(names) > 4
    assert [name for name, value in zip(names, values, strict=True) if not value] == []


# --- what is chosen --------------------------------------------------------------------------------------------


def test_a_domain_is_chosen_and_the_address_can_be_passed_on(viewer: Visitor) -> None:
    page = look(viewer)
    choice = page.get_by_label("Domain")
    expect(choice.locator("option")).to_have_text(
        [DOMAIN, "default", FERRIES, HARBOUR, OTHER_DOMAIN, RENTALS, RIDES, TANDEMS]
    )
    choice.select_option(OTHER_DOMAIN)
    expect(page.locator(".ep-name b")).to_have_text(["trains"])
    page.reload()
    expect(page.locator(".ep-name b")).to_have_text(["trains"])
    page.get_by_label("Table or job").fill("flights")
    expect(page.get_by_text("matches “flights”")).to_be_visible()


def test_an_empty_domain_says_so(viewer: Visitor) -> None:
    page = viewer.page
    page.goto("/plugin/epochs?domain=nowhere&to=never")
    expect(page.get_by_text("Domain “nowhere” has no table to show")).to_be_visible()
    expect(page.get_by_label("Domain")).to_have_value("nowhere")
    viewer.picture("empty-domain")


def test_the_keyboard_reaches_every_epoch(viewer: Visitor) -> None:
    page = look(viewer, domain=DOMAIN)
    expect(page.locator(".ep-cell[tabindex='0']")).to_have_count(4)
    page.get_by_label("refresh every 5 s").focus()
    page.keyboard.press("Tab")  # the frame that scrolls, or the first row, as the browser has it
    if page.locator(".ep-cell:focus").count() == 0:
        page.keyboard.press("Tab")
    focused = page.locator(".ep-cell:focus")
    expect(focused).to_have_accessible_name(re.compile("^flights, 2013-02-11"))
    for key, name in [
        ("ArrowLeft", "flights, 2013-02-10"),
        ("Home", "flights, 2013-02-05"),
        ("ArrowDown", "cancelled_flights, 2013-02-05"),
        ("End", "cancelled_flights, 2013-02-11"),
        ("ArrowUp", "flights, 2013-02-11"),
    ]:
        page.keyboard.press(key)
        expect(focused).to_have_accessible_name(re.compile(f"^{name}"))
    assert focused.evaluate("one => getComputedStyle(one).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    expect(page.get_by_role("region", name="Epoch")).to_be_visible()
    viewer.picture("keyboard")
    page.keyboard.press("Escape")
    expect(page.get_by_role("region", name="Epoch")).to_have_count(0)
    expect(focused).to_have_accessible_name(re.compile("^flights, 2013-02-11"))


# --- restatements ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_restatements_of_every_state_are_listed_and_can_be_read(visit: Visit, scheme: str) -> None:
    with visit("viewer", scheme) as viewer:
        page = look_at_restatements(viewer, TANDEMS)
        entries = page.get_by_role("region", name="Restatements").locator("tbody tr")
        expect(entries).to_have_count(3)
        for entry, words in zip(
            entries.all(),
            (
                ["harbour", "open", "1 of 6 staged"],
                ["abandoned", "the code was right (ada)"],
                ["published", "13"],
            ),
            strict=True,
        ):
            for word in words:
                expect(entry).to_contain_text(word)
        assert page.locator(".ep img").count() == 0
        assert faint(page) == {}
        viewer.picture(f"restatements-{scheme}")

        page.get_by_role("link", name="harbour", exact=True).click()
        region = page.get_by_role("region", name="Restatement", exact=True)
        expect(region).to_contain_text("1 staged, 1 outdated, 1 computing, 3 waiting")
        expect(page).to_have_url(re.compile("restatement=harbour"))
        page.reload()
        expect(region).to_contain_text('{"restatement": "harbour"}')
        expect(page.get_by_text("Members are missing: 4 of 6 epochs are not staged")).to_be_visible()
        expect(page.get_by_role("button", name="Count rows")).to_be_disabled()
        members = page.get_by_role("table", name="Members by epoch").locator("tbody tr")
        expect(members).to_have_count(6)
        page.get_by_role("combobox", name="State", exact=True).select_option("outdated")
        expect(members).to_have_count(1)
        expect(members).to_contain_text("rides was computed again since")
        assert "/dags/count_rides/runs/restated" in (members.get_by_role("link").get_attribute("href") or "")
        assert faint(page) == {}
        viewer.picture(f"restatement-{scheme}")
        page.go_back()
        expect(entries).to_have_count(3)
        assert viewer.errors == []


def test_a_domain_without_restatements_names_the_command(viewer: Visitor) -> None:
    page = look_at_restatements(viewer, DOMAIN)
    note = page.locator(".ep-note")
    expect(note).to_contain_text("A restatement computes committed epochs again")
    expect(note.locator("code")).to_have_text(
        f"airflow epochs restate open TABLE --interval FROM/TO --domain {DOMAIN} --reason …"
    )


def test_members_in_the_grid_lead_to_their_restatement(viewer: Visitor) -> None:
    page = look(viewer, domain=TANDEMS)
    assert said(page, "rides")[2] == "committed, 3 rows at CSN 3, member of restatement harbour"
    marks = row(page, "station_totals").get_by_role("link")
    expect(marks).to_have_count(1)
    words = "Restatement harbour computes 2013-02-02 00:00 to 2013-02-07 00:00 UTC again"
    expect(marks).to_have_accessible_name(words)
    viewer.picture("members-in-the-grid")
    row(page, "rides").get_by_role("button").nth(1).focus()
    page.keyboard.press("Enter")
    detail = page.get_by_role("region", name="Epoch")
    expect(detail.get_by_role("link", name="harbour")).to_be_visible()
    marks.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Restatement harbour")).to_be_visible()


def test_who_may_not_decide_is_told_so(viewer: Visitor) -> None:
    viewer.page.goto(f"/plugin/epochs?domain={RIDES}&restatement=harbour")
    decisions = viewer.page.get_by_role("region", name="Decisions")
    expect(decisions).to_contain_text("You may look, not decide")
    expect(decisions).to_contain_text("count_rides, load_rides")
    for button in decisions.get_by_role("button").all():
        expect(button).to_be_disabled()
    expect(viewer.page.get_by_role("button", name="Count rows")).to_be_enabled()


def test_restatement_is_planned_approved_published_and_reverted(visit: Visit, world: PageWorld) -> None:
    with visit("admin") as admin:
        name = open_from_a_plan(admin)
        stage(world, name)
        count_approve_and_publish(admin, name)
        revert_with_readers(admin, world, name)
        assert admin.errors == []
        assert admin.hosts == {world.base_url}


def test_refused_decision_shows_the_packages_words(visit: Visit) -> None:
    """A restatement that is published meanwhile: the dialog stays, with the words and the reason as they are."""
    with visit("admin") as admin:
        page = admin.page
        page.goto(f"/plugin/epochs?domain={TANDEMS}&restatement=harbour")
        of_museum = {"domain": TANDEMS, "name": "museum", "reason": "nothing was wrong"}
        page.route("**/restatement/abandon", lambda route: route.continue_(post_data=of_museum))
        decisions = page.get_by_role("region", name="Decisions")
        decisions.get_by_role("button", name="Abandon").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Reason").fill("nothing was wrong")
        dialog.get_by_role("button", name="Abandon").click()
        problem = dialog.get_by_role("alert")
        expect(problem.get_by_role("heading")).to_have_text("Abandon: refused")
        expect(problem).to_contain_text("What to do:")
        admin.picture("refused")


def test_obstacles_are_told_before_a_revert_is_sent(visit: Visit) -> None:
    """An open restatement has one of its epochs."""
    with visit("admin") as admin:
        admin.page.goto(f"/plugin/epochs?domain={TANDEMS}&restatement=museum")
        admin.page.get_by_role("region", name="Decisions").get_by_role("button", name="Revert").click()
        dialog = admin.page.get_by_role("dialog")
        expect(dialog.get_by_role("alert")).to_contain_text("In the way: ")
        dialog.get_by_label("Reason").fill("nothing was wrong")
        expect(dialog.get_by_role("button", name="Revert")).to_be_disabled()
        admin.picture("in-the-way")
        assert admin.errors == []


def test_closing_phase_is_told(viewer: Visitor) -> None:
    viewer.page.goto(f"/plugin/epochs?domain={FERRIES}&restatement=harbour")
    region = viewer.page.get_by_role("region", name="Restatement", exact=True)
    expect(region).to_contain_text("no new readers until 20")
    viewer.picture("closing")


# --- an epoch, its tables and jobs -----------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", [pytest.param("light", marks=pytest.mark.slow), "dark"])
def test_panel_has_inputs_attempts_leases_and_delay(visit: Visit, scheme: str) -> None:
    with visit("viewer", scheme) as viewer:
        page = look(viewer, domain=TANDEMS)
        row(page, "station_totals").get_by_role("button").nth(1).click()
        detail = page.get_by_role("region", name="Epoch")
        part = {
            name: detail.get_by_role("region", name=name)
            for name in ("Inputs", "Tables", "Attempts", "Delay")
        }
        expect(part["Inputs"].locator("tbody tr")).to_contain_text("rides")
        expect(part["Tables"].locator("tbody tr")).to_contain_text("station_totals")
        expect(part["Attempts"].locator("tbody tr")).to_have_count(3)
        plot = part["Delay"].get_by_role("img")
        expect(plot).to_have_accessible_name(re.compile("^Delay of station_totals, 6 epochs from 2013-02-02"))
        for name in ("Abort …", "Retire job …"):
            expect(detail.get_by_role("button", name=name)).to_be_disabled()
        expect(detail).to_contain_text("You may look, not decide")
        expect(detail).to_contain_text("count_rides.")
        assert faint(page) == {}
        viewer.picture(f"panel-{scheme}")
        plot.scroll_into_view_if_needed()
        viewer.picture(f"delay-{scheme}")
        assert viewer.errors == []


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_topology_is_drawn_and_leads_to_epochs(visit: Visit, scheme: str) -> None:
    with visit("viewer", scheme) as viewer:
        page = viewer.page
        page.goto(f"/plugin/epochs?view=topology&domain={TANDEMS}")
        graph = page.get_by_role("group", name="Graph of jobs and tables")
        expect(graph.get_by_role("link")).to_have_count(4)
        expect(graph.locator("path.ep-arrow")).to_have_count(3)
        page.get_by_text("As a list").click()
        expect(page.get_by_role("table").locator("tbody tr")).to_have_text(
            ["count_ridesdaily, UTCrides (state)station_totals", "load_ridesdaily, UTCnothingrides"]
        )
        assert faint(page) == {}
        viewer.picture(f"topology-{scheme}")
        link = graph.get_by_role("link", name="station_totals, table, full: show its epochs")
        link.focus()
        page.keyboard.press("Enter")
        expect(page.locator(".ep-name b")).to_have_text(["station_totals"])
        page.go_back()
        expect(graph).to_be_visible()
        assert viewer.errors == []


def test_epoch_is_skipped_and_another_restated(visit: Visit) -> None:
    """By keyboard; what stands in the way of a decision is told in the package's words."""
    with visit("admin") as admin:
        page = look(admin, domain=OTHER_DOMAIN, to="2013-02-04T00:00:00Z")
        detail, dialog = page.get_by_role("region", name="Epoch"), page.get_by_role("dialog")
        actions = detail.get_by_role("region", name="Actions")
        told = actions.get_by_role("status")
        row(page, "trains").get_by_role("button").nth(1).click()
        actions.get_by_role("button", name="Skip …").focus()
        page.keyboard.press("Enter")
        expect(dialog.get_by_role("button", name="Skip")).to_be_disabled()
        page.keyboard.type("no train ran")
        assert faint(page) == {}
        admin.picture("skip")
        dialog.get_by_role("button", name="Skip").click()
        expect(told).to_contain_text("Skipped: readers go on.")
        expect(log_of(page).first).to_contain_text("skip by admin / ")
        second = row(page, "trains").get_by_role("button").nth(1)
        expect(second).to_have_accessible_name(re.compile("skipped"))

        row(page, "trains").get_by_role("button").first.click()
        actions.get_by_role("button", name="Restate …").click()
        expect(dialog.get_by_role("group", name="Plan")).to_contain_text("Computes 1 epoch of 1 job again")
        dialog.get_by_label("Reason").fill("a train was counted twice")
        dialog.get_by_role("button", name="Restate").click()
        expect(told).to_contain_text("Opened: load_trains-2013-02-01-")
        expect(told.get_by_role("link", name="Show it")).to_be_visible()
        actions.get_by_role("button", name="Retire job …").click()
        dialog.get_by_label("Reason").fill("no trains any more")
        dialog.get_by_role("button", name="Retire job").click()
        expect(dialog.get_by_role("alert")).to_contain_text("What to do:")
        admin.picture("retire-refused")
        page.keyboard.press("Escape")
        detail.get_by_role("link", name=re.compile("^load_trains-2013-02-01-")).click()
        expect(page.get_by_role("heading", name="Restatement load_trains-2013-02-01-")).to_be_visible()
        expect(page.get_by_role("region", name="Restatement", exact=True)).to_contain_text(
            "a train was counted twice"
        )
        assert [error for error in admin.errors if "409" not in error] == [], "the refusal is the only one"


# --- what goes wrong -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("user", "told"), [("viewer", False), ("admin", True)])
def test_page_of_an_unreadable_store_names_a_next_step(visit: Visit, user: str, told: bool) -> None:
    with visit(user) as visitor:
        page = look(visitor, domain=DOMAIN)
        page.get_by_label("Connection").select_option("epochs_broken")
        problem = page.get_by_role("alert")
        expect(problem.get_by_role("heading")).to_have_text("The metadata store cannot be used")
        expect(problem).to_contain_text("What to do:")
        assert ("broken.db" in problem.inner_text()) is told
        assert tables(page) == [], "nothing of another connection is left"
        visitor.picture(f"broken-store-{user}")
        page.get_by_label("Connection").select_option("epochs_default")
        expect(page.locator(".ep-name b").first).to_have_text("flights")
        expect(problem).to_have_count(0)


@pytest.mark.slow
def test_page_keeps_its_content_while_the_server_is_away(
    browser: Browser, world: PageWorld, cookies: dict[str, StorageState]
) -> None:
    with Visitor.come(browser, world.base_url, cookies=cookies["viewer"]) as visitor:
        page = look(visitor, domain=DOMAIN)
        page.context.set_offline(True)
        problem = page.locator(".ep [role=alert]")
        expect(problem).to_contain_text("Airflow's API server does not answer")
        assert "flights" in tables(page)
        visitor.picture("server-away")
        page.context.set_offline(False)
        expect(problem).to_have_count(0)
