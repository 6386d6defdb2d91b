"""What each operation requires of the store is what the page of transactions says: none goes missing unnoticed."""

from __future__ import annotations

import pytest

from tests.contract.operations import recorded
from tests.transactions import PAGE, Row, calls, page


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    """The transactions of every operation, as they were done now."""
    return recorded()


def test_transactions_page_matches_the_operations(rows: list[Row]) -> None:
    """R3, R10, R33: whatever an operation decides on is required by its transaction; the page says what that is."""
    assert PAGE.read_text().splitlines() == page(rows).splitlines(), "run: python -m tests.transactions"


def test_every_transaction_of_the_coordination_is_on_the_page(rows: list[Row]) -> None:
    assert calls() - {row.made_in for row in rows} == set()


def test_every_transaction_is_of_the_store_that_it_was_decided_in(rows: list[Row]) -> None:
    """R33: a restored store gives out versions again, so that no version tells by itself."""
    assert [str(row) for row in rows if "*the store*" not in row.requires] == []


def test_each_written_record_is_required_by_its_transaction(rows: list[Row]) -> None:
    """R3, R15: one that may be there already is required as it was read; new entries belong to what is required."""
    beside = ("log", "slice", "schema", "lock", "job", "pointer", "commit", "*in", "~~", "fence", "chain")
    for row in rows:
        required = {requirement.removeprefix("no ") for requirement in row.requires}
        changed = {written for written in row.writes if not written.startswith(beside)}
        assert row.made_in[0] == "upkeep/move" or changed <= required, row
