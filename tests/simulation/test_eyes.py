"""Eyes that see: an error in what the simulation looks at, planted in the real code, ends it with the rule's name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

import pytest

from airflow_provider.coordination.attempts import reserve, validate, within
from airflow_provider.coordination.attempts.reserve import Race
from airflow_provider.coordination.commits import register, renamed_sources, stayed_rows
from airflow_provider.coordination.reading import outdated
from airflow_provider.coordination.reading.outdated import OutdatedRows
from airflow_provider.coordination.restating import grouped
from airflow_provider.coordination.upkeep import rollback_plan, unread
from airflow_provider.coordination.upkeep.members_now import MembersNow
from airflow_provider.domain import beginning, reservation
from airflow_provider.domain.epoch import Provenance
from airflow_provider.domain.outdated import staying_edges
from airflow_provider.domain.restatement import RestatementRecord
from airflow_provider.domain.session import Session
from airflow_provider.domain.staying import after_commit
from airflow_provider.domain.version import Rewrite
from airflow_provider.tables.memory_versions import Version
from tests.simulator.run import simulate

LABELLED = (47, 59, *range(1, 100))
"""Seeds in which edges without revisions leave rows behind; the first ones do so at once, until draws change."""

STAYED = (8, 41, *range(1, 300))
"""Seeds in which a job computes epochs again without a table that has rows of them."""

RENAMED = (269, 2089, 89, 79, *range(9, 1200, 10))
"""Seeds in which jobs read a source by one name after the other."""

SHARED = (7, *(seed for seed in range(2, 900, 5) if seed % 4))
"""Seeds in which two jobs share a source that is bound anew, and others read both."""


RACES = (4, *range(10))
"""Seeds in which publishers lose races for the head; the first one sees at once, until draws change."""

GROUPED = range(4, 200, 8)
"""Seeds with a commit group."""

RESTATED = (16, 20, *range(0, 200, 4))
"""Seeds in which people restate committed epochs; the first ones see at once, until draws change."""

ROLLED_BACK = (12, 4, 32, *range(20, 400, 8))
"""Seeds in which a user rolls the domain back; the first ones see at once, until draws change."""


def first_violation(seeds: Iterable[int], rule: str = "") -> str:
    """What the first of *seeds* finds of *rule*, empty when none does."""
    found = (simulate(seed).violation for seed in seeds)
    return next((violation for violation in found if violation and violation.startswith(rule)), "")


def test_catalog_with_rows_that_no_cut_reads_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """R17: an older state of a full table, an epoch beyond a gap."""
    monkeypatch.setattr(Version, "shown", property(lambda version: version.slices))
    assert first_violation(range(1, 9)).startswith("R17: ")


def test_rows_without_a_label(monkeypatch: pytest.MonkeyPatch) -> None:
    """R18: rows that an edge without revisions has left behind."""

    def none(*_given: object) -> tuple[()]:
        return ()

    monkeypatch.setattr(OutdatedRows, "of", none)
    assert first_violation(LABELLED, "R18: ")


@pytest.mark.parametrize("left", ["stay", "until"])
def test_rows_of_an_earlier_revision_without_a_label(monkeypatch: pytest.MonkeyPatch, left: str) -> None:
    """R18: beside those of another table of their epoch, or in a cut of before both were computed again."""

    def forgets(entries: Any, *given: Any, stay: Any, **named: Any) -> Any:
        found = after_commit(entries, *given, stay=() if left == "stay" else stay, **named)
        return tuple(entry for entry in found if not entry.until) if left == "until" else found

    monkeypatch.setattr(stayed_rows, "after_commit", forgets)
    assert "stayed" in first_violation(STAYED, "R18: ")


@pytest.mark.parametrize("left", ["files", "rows", "open"])
def test_a_source_that_is_read_twice_by_two_names(monkeypatch: pytest.MonkeyPatch, left: str) -> None:
    """I11: late files that an older name has read, all rows of a table, or those that an open epoch reads."""
    if left == "files":
        monkeypatch.setattr(renamed_sources, "_read_twice", lambda *_given: [])
    elif left == "rows":
        for module in (renamed_sources, register):
            monkeypatch.setattr(module, "refuse_from_the_beginning", lambda *_given: None)
    else:
        monkeypatch.setattr(renamed_sources, "open_source", lambda *_given: 0)
    found = first_violation(RENAMED, "I11: ")
    files, rows = "has read ['memory:" in found, " and as landing" in found
    assert {"files": files, "rows": rows, "open": files or rows}[left]


def test_files_that_doctor_does_not_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """I11: a source that was left has files that no epoch reads any more."""
    monkeypatch.setattr(unread._Look, "found_of_left", lambda _look: iter(()))
    assert "which doctor does not name" in first_violation(RENAMED, "I11: ")


def test_a_conflict_over_an_input_that_has_not_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """R13: publish says of each input that it was computed again."""

    def all_of_them(inputs: Sequence[Provenance], *_given: object) -> list[tuple[Provenance, Rewrite]]:
        return [(read, Rewrite(csn=read.csn + 1, low=read.high, high=read.high)) for read in inputs]

    monkeypatch.setattr(validate, "invalidated", all_of_them)
    assert first_violation(range(1, 20), "R13: ")


def test_a_reader_of_two_revisions_of_a_source(monkeypatch: pytest.MonkeyPatch) -> None:
    """R18: it begins and publishes although one of its inputs stands behind the source."""
    monkeypatch.setattr(beginning, "left_behind", lambda *_given: None)
    assert first_violation(SHARED, "R18: ")


def test_a_publisher_that_never_reserves(monkeypatch: pytest.MonkeyPatch) -> None:
    """R11: it loses a third preparation."""
    monkeypatch.setattr(reservation, "LOST_BEFORE_RESERVING", 100)
    assert first_violation(RACES).startswith("R11: ")


def test_a_publisher_that_looks_at_no_reservation(monkeypatch: pytest.MonkeyPatch) -> None:
    """R11: it publishes before the one that has reserved the head."""
    look: Callable[..., Any] = Race.look

    def blind(race: Race, reading: Any) -> tuple[()]:
        with suppress(reserve.Reserved):
            look(race, reading)
        return ()

    monkeypatch.setattr(Race, "look", blind)
    assert "while the head is reserved" in first_violation(RACES)


def test_an_epoch_that_is_taken_from_a_restatement(monkeypatch: pytest.MonkeyPatch) -> None:
    """R28: a normal run begins it while its restatement is open."""
    monkeypatch.setattr(within, "is_over", lambda *_given, **_named: True)
    assert "is begun by" in first_violation(RESTATED, "R28: ")


def test_a_restatement_that_no_user_has_to_decide_about(monkeypatch: pytest.MonkeyPatch) -> None:
    """R28: every epoch that holds it counts as released."""
    monkeypatch.setattr(RestatementRecord, "is_released", lambda *_given: True)
    assert "changes what" in first_violation(RESTATED, "I4: ")


def test_rows_of_released_epochs_without_a_label(monkeypatch: pytest.MonkeyPatch) -> None:
    """R18: the domain forgets that epochs were released."""
    monkeypatch.setattr(outdated, "staying_edges", lambda jobs, _released: staying_edges(jobs, ()))
    assert "released at" in first_violation(RESTATED, "R18: ")


def test_a_group_that_is_published_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """R40: its last member publishes what is staged, whatever is missing."""
    staged = MembersNow.staged
    monkeypatch.setattr(MembersNow, "staged", lambda now: (staged(now)[0], []))
    monkeypatch.setattr(grouped, "surely_waits", lambda *_given: False)
    assert "published in part" in first_violation(GROUPED, "R40: ")


def test_a_rollback_beside_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    """R30: it looks at no attempt, restatement or group that is under way."""
    monkeypatch.setattr(rollback_plan._Looking, "holders", lambda _look: iter(()))
    assert "are not in the way" in first_violation(ROLLED_BACK, "R30: ")


def test_a_session_that_has_seen_what_was_rolled_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """R20: it goes on."""
    monkeypatch.setattr(Session, "taken_back", lambda *_given: ())
    assert "were rolled back" in first_violation(ROLLED_BACK[1:], "R20: ")
