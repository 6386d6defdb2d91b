"""The planted errors fit the code that they are planted in."""

from __future__ import annotations

import pytest

from tests.mutants.__main__ import ROOT, planted_text
from tests.mutants.planted import PLANTED, Mutant

FEWEST = 15


@pytest.mark.parametrize("mutant", PLANTED, ids=lambda one: one.name)
def test_a_mutant_is_one_change_that_compiles(mutant: Mutant) -> None:
    compile(planted_text(mutant), mutant.file, "exec")
    assert mutant.old != mutant.new
    assert mutant.tests
    assert [one for one in mutant.tests if not (ROOT / one).is_file()] == []


def test_there_are_enough_mutants_with_names_of_their_own() -> None:
    assert len({one.name for one in PLANTED}) == len(PLANTED) >= FEWEST
    assert {one.file.split("/")[0] for one in PLANTED} == {"domain", "coordination"}
