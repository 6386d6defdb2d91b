"""Random histories of ignored revisions: each row behind its inputs has a label, whatever jobs declare (R18)."""

from __future__ import annotations

import pytest

from tests.property.label_histories import LabelHistory

STEPS = 40
SEEDS = range(50)
"""Seeds 0, 2 and 43 find epochs remembered by table and not by edge; 3, 27, 28 and 43 copies of left tables."""


@pytest.mark.parametrize(
    "tens",
    [
        0,
        pytest.param(4, marks=pytest.mark.thorough),
        *(pytest.param(tens, marks=pytest.mark.slow) for tens in (1, 2, 3)),
    ],
)
def test_rows_behind_their_inputs_have_a_label(tens: int) -> None:
    """R18, I4: in each state that can be read, after each move."""
    for seed in SEEDS[10 * tens : 10 * (tens + 1)]:
        LabelHistory(seed).run(STEPS)
