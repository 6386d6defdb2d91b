"""Decisions on a restatement, as a user takes them on the page: from staged rows to their way back."""

from __future__ import annotations

from urllib.parse import quote

from playwright.sync_api import Page, expect

from airflow_provider.coordination.service import EpochService
from tests.restated_rides import WHY, Rides
from tests.system.browser import Visitor
from tests.system.page_views import faint, look, row, said
from tests.system.page_world import PATIENT, RENTALS, PageWorld


def look_at_restatements(visitor: Visitor, domain: str) -> Page:
    visitor.page.goto(f"/plugin/epochs?view=restatements&domain={quote(domain)}")
    visitor.page.locator(".ep-table, .ep-note:has(code)").first.wait_for()
    return visitor.page


def approve_and_publish(admin: Visitor, domain: str, name: str) -> None:
    """Follow the list to a restatement that needs no approval, and press both buttons."""
    page = admin.page
    decisions, dialog = page.get_by_role("region", name="Decisions"), page.get_by_role("dialog")
    look_at_restatements(admin, domain).get_by_role("link", name=name, exact=True).click()
    for button, asks, told in (
        ("Approve", "It can be published without an approval, too.", "Approved."),
        ("Publish", "become visible in one commit", "Published at CSN"),
    ):
        decisions.get_by_role("button", name=button).click()
        expect(dialog).to_contain_text(asks)
        dialog.get_by_role("button", name=button).click()
        expect(decisions.get_by_role("status")).to_contain_text(told)


def open_from_a_plan(admin: Visitor) -> str:
    """Plan the first day of the rides again from its epoch, and open the restatement. :return: its name"""
    page, dialog = look(admin, domain=RENTALS), admin.page.get_by_role("dialog")
    row(page, "rides").get_by_role("button").first.click()
    actions = page.get_by_role("region", name="Epoch").get_by_role("region", name="Actions")
    actions.get_by_role("button", name="Restate …").click()
    expect(dialog.get_by_role("group", name="Plan")).to_contain_text("Computes 4 epochs of 2 jobs again")
    dialog.get_by_label("publish only what was approved").check()
    dialog.get_by_label("Reason").fill(WHY)
    admin.pictures("restatement-plan", of=dialog)
    dialog.get_by_role("button", name="Restate").click()
    expect(actions.get_by_role("status")).to_contain_text("Opened: ")
    actions.get_by_role("status").get_by_role("link", name="Show it").click()
    heading = page.get_by_role("heading", name="Restatement load_rides-2013-02-01-")
    return heading.inner_text().removeprefix("Restatement ")


def stage(world: PageWorld, name: str) -> None:
    """Compute all members of *name*, as runs of their DAGs do."""
    with EpochService.open(world.settings, defaults=PATIENT) as service:
        Rides(service, RENTALS).stage(name, 1, 2, 3)


def count_approve_and_publish(admin: Visitor, name: str) -> None:
    """By keyboard where it matters: the dialog takes the focus, Escape leaves everything as it was."""
    page = admin.page
    decisions = page.get_by_role("region", name="Decisions")
    region = page.get_by_role("region", name="Restatement", exact=True)
    told, dialog = decisions.get_by_role("status"), page.get_by_role("dialog")
    look_at_restatements(admin, RENTALS).get_by_role("link", name=name, exact=True).click()
    expect(decisions.get_by_role("button", name="Publish")).to_be_disabled()
    expect(decisions).to_contain_text("Publish waits: it is not approved.")
    page.get_by_role("button", name="Count rows").click()
    counted = page.get_by_role("table", name="Rows added and removed by table").locator("tbody tr")
    expect(counted).to_have_text(["station_totals11", "rides01"])
    assert "Harbour" not in page.content(), "numbers only, no rows"
    admin.pictures("restatement-staged")

    decisions.get_by_role("button", name="Approve").focus()
    page.keyboard.press("Enter")
    expect(dialog).to_have_accessible_name(f"Approve {name}?")
    expect(dialog).to_contain_text("Rows: station_totals +1 −1, rides +0 −1.")
    assert faint(page) == {}
    admin.pictures("restatement-approve", of=dialog)
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(decisions.get_by_role("button", name="Approve")).to_be_focused()
    page.keyboard.press("Enter")
    dialog.get_by_role("button", name="Approve").click()
    expect(told).to_contain_text("Approved.")
    expect(region).to_contain_text("by admin")

    decisions.get_by_role("button", name="Publish").click()
    expect(dialog).to_contain_text("All 4 epochs become visible in one commit")
    dialog.get_by_role("button", name="Publish").click()
    expect(told).to_contain_text("Published at CSN 7")
    expect(region).to_contain_text("published")
    assert said(look(admin, domain=RENTALS), "rides")[1] == "committed again, revision 2, 2 rows"


def revert_with_readers(admin: Visitor, world: PageWorld, name: str) -> None:
    """Take it back once the next day has read its rows: they are computed again within the revert."""
    page = admin.page
    decisions = page.get_by_role("region", name="Decisions")
    region = page.get_by_role("region", name="Restatement", exact=True)
    told, dialog = decisions.get_by_role("status"), page.get_by_role("dialog")
    with EpochService.open(world.settings, defaults=PATIENT) as service:
        rides = Rides(service, RENTALS)
        rides.commit(4)
        page.goto(f"/plugin/epochs?domain={RENTALS}&restatement={name}")
        decisions.get_by_role("button", name="Revert").click()
        readers = dialog.get_by_role("group", name="Later readers")
        expect(readers).to_contain_text("1 epoch of 1 job read its rows since")
        expect(readers.get_by_role("listitem")).to_contain_text("count_rides: 1 epoch")
        expect(dialog.get_by_role("button", name="Revert")).to_be_disabled()
        assert faint(page) == {}
        admin.pictures("restatement-published")
        dialog.get_by_label("Reason").fill("the first rows were right")
        dialog.get_by_role("button", name="Revert").click()
        expect(told).to_contain_text(f"Opened: {name}-reverted has the former rows.")
        told.get_by_role("link", name="Show it").click()
        expect(region).to_contain_text("Members5 epochs of 2 jobs: 4 staged, 1 waiting")
        admin.pictures("restatement-reverting")
        rides.stage_one(f"{name}-reverted", rides.count, 4)
    page.goto(f"/plugin/epochs?domain={RENTALS}&restatement={name}")
    decisions.get_by_role("button", name="Revert").click()
    dialog.get_by_label("Reason").fill("the first rows were right")
    dialog.get_by_role("button", name="Revert").click()
    expect(told).to_contain_text("Taken back at CSN 10")
    expect(region.locator(".ep-badge").first).to_have_text("taken back")
    admin.pictures("restatement-taken-back")
    region.get_by_role("link", name=f"{name}-reverted").click()
    expect(region).to_contain_text("the first rows were right")
    expect(region).to_contain_text("Byadmin")
    assert said(look(admin, domain=RENTALS), "rides")[1] == "committed again, revision 3, 3 rows"
    listed = (
        look_at_restatements(admin, RENTALS).get_by_role("region", name="Restatements").locator("tbody tr")
    )
    expect(listed.filter(has_text="the harbour sent a ride twice").locator(".ep-badge")).to_have_text(
        "taken back"
    )
