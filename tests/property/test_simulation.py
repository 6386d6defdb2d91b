"""A short simulation, for those who cannot wait for the long one (tests/simulation)."""

from __future__ import annotations

import random

import pytest

from tests.simulator.run import simulate


@pytest.mark.parametrize(
    "number", [0, *(pytest.param(number, marks=pytest.mark.thorough) for number in (1, 2))]
)
def test_a_random_seed_violates_nothing(rng: random.Random, number: int) -> None:
    """R2, R10, R13, R15, R18, R19, R23, I1, I2, I3, I4, I5, I6, I7, I9: crashes, lost messages, zombies."""
    seed = rng.randrange(10**6) + number
    outcome = simulate(seed)
    assert outcome.violation == "", f"python -m tests.simulator --trace {seed}"
    assert outcome.faults > 0


@pytest.mark.parametrize("seed", [0, 1])
def test_known_seeds_violate_nothing(seed: int) -> None:
    """R2, R7, R10, R11, R13, R15, R18, R19, R23, I1, I2, I3, I4, I5, I6, I7, I9: the same histories everywhere."""
    assert simulate(seed).violation == ""
