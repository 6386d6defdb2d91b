"""Every rule of the protocol has a test that carries it, and the page of rules says which."""

from __future__ import annotations

import re

import pytest

from tests.rules import PAGE, page, rules, tagged, tags

RULES = [f"R{number}" for number in range(1, 42)]
INVARIANTS = [f"I{number}" for number in range(1, 13)]


def test_the_protocol_states_every_rule_once() -> None:
    assert [rule.name for rule in rules()] == RULES
    assert [rule.name for rule in rules() if not rule.text] == []


PLANNED = {"R8", *(f"R{number}" for number in range(24, 32)), "R34", "R40"}
"""What this release may leave out, in part or whole."""


def test_only_rules_planned_for_later_are_left_out() -> None:
    """A developer who takes a rule out of the gate below by calling it "not yet" has to say it here, too."""
    unfinished = {rule.name for rule in rules() if rule.standing.startswith(("in part", "not yet"))}
    assert unfinished <= PLANNED


def test_every_rule_that_is_built_has_a_test() -> None:
    """A rule without one fails here; one that is not built yet says so on the protocol's page, with the reason."""
    carried = tagged()
    assert [rule.name for rule in rules() if not rule.missing and rule.name not in carried] == []


def test_each_unfinished_rule_states_its_missing_part() -> None:
    unfinished = [rule for rule in rules() if rule.standing != "built"]
    assert unfinished
    assert [rule.name for rule in unfinished if not rule.left] == []


def test_missing_part_of_a_partly_built_rule_belongs_to_another_rule() -> None:
    """One that may be left out."""
    bounded = [rule for rule in rules() if rule.standing.startswith("built, ")]
    assert bounded
    assert [rule.name for rule in bounded if not PLANNED.intersection(re.findall(r"R\d+", rule.left))] == []


def test_every_invariant_has_a_test() -> None:
    """Those of sessions are looked at by the simulation as far as they hold."""
    carried = tagged()
    assert [name for name in INVARIANTS if name not in carried] == []


def test_no_test_carries_a_rule_that_does_not_exist() -> None:
    assert set(tagged()) <= {*RULES, *INVARIANTS}


def test_rules_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "run: python -m tests.rules"


@pytest.mark.parametrize(
    ("docstring", "found"),
    [
        ("R13: a reader", ("R13",)),
        ("R13, R18,\n    I4: a reader", ("R13", "R18", "I4")),
        ("R16, section 5: a try", ("R16",)),
        ("The rule R13: not a tag", ()),
        ("ISO8: another kind of name", ()),
        (None, ()),
    ],
)
def test_tags_are_read_from_the_start_of_a_docstring(docstring: str | None, found: tuple[str, ...]) -> None:
    assert tags(docstring) == found
