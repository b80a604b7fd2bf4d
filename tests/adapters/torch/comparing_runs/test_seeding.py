"""Seeded generators are recognized by their states alone."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch

from mothtrap.adapters.torch.comparing_runs.seeding import explain, is_clock, read_states
from mothtrap.core.ledger import LedgerValue, Start

NOW_S = 1_700_000_000.0


@pytest.fixture(autouse=True)
def _noise() -> Iterator[None]:
    """Put generators into the state of a new process; restore them afterwards."""
    before = random.getstate(), np.random.get_state(), torch.get_rng_state()
    random.seed()
    np.random.seed()
    # like noise from the system: neither a small number nor a time
    torch.manual_seed((1 << 62) + 1)
    yield
    random.setstate(before[0])
    np.random.set_state(before[1])
    torch.set_rng_state(before[2])


def told(act: Callable[[], object], *, early: bool = True) -> dict[str, LedgerValue]:
    start = read_states()
    act()
    return explain(start, read_states(), NOW_S, (2718,), early=early)


def draw() -> None:
    for _ in range(2000):
        random.random()
    np.random.randn(3000)
    torch.randn(5)


def seed(number: int) -> Callable[[], None]:
    def act() -> None:
        random.seed(number)
        np.random.seed(number)
        torch.manual_seed(number)
        draw()

    return act


def test_what_no_one_touches_is_unused() -> None:
    found = told(lambda: None)
    assert found == {
        "start.torch": Start.UNSEEDED,
        "start.python": Start.UNUSED,
        "start.numpy": Start.UNUSED,
    }


def test_noise_that_was_drawn_from_is_known_as_noise() -> None:
    found = told(draw)
    assert set(found.values()) == {Start.UNSEEDED}


@pytest.mark.parametrize("number", [0, 42, 987_654])
def test_a_seed_is_named(number: int) -> None:
    found = told(seed(number))
    for name in ("torch", "python", "numpy"):
        assert found[f"start.{name}"] == Start.SEEDED
        assert found[f"seed.{name}"] == number


def test_seeds_of_single_generators_are_named_where_they_are_usual_or_given() -> None:
    found = told(lambda: (random.seed(2718), np.random.seed(1337)))
    assert (found["seed.python"], found["seed.numpy"]) == (2718, 1337)
    assert found["start.torch"] == Start.UNSEEDED


def test_an_unusual_seed_is_a_seed_all_the_same() -> None:
    found = told(lambda: (random.seed("a text"), np.random.seed(987_001)))
    assert (found["start.python"], found["start.numpy"]) == (Start.SEEDED, Start.SEEDED)
    assert "seed.python" not in found


def test_a_seed_that_is_a_time_is_called_so() -> None:
    found = told(seed(int(NOW_S) - 5))
    assert {found[f"start.{name}"] for name in ("torch", "python", "numpy")} == {Start.CLOCK}
    found = told(lambda: np.random.seed(int(NOW_S) - 30))
    assert found["start.numpy"] == Start.CLOCK
    assert not is_clock(42, NOW_S)
    assert is_clock(int(NOW_S * 1000), NOW_S)


def test_of_a_watch_that_began_late_only_seeds_that_are_found_are_told() -> None:
    seed(5)()
    found = told(draw, early=False)
    assert found["seed.torch"] == 5
    assert found["seed.python"] == 5
    random.seed()
    assert told(draw, early=False)["start.python"] == Start.UNKNOWN


def test_another_generator_of_numpy_is_unknown() -> None:
    before = np.random.get_bit_generator()
    np.random.set_bit_generator(np.random.PCG64(1))
    try:
        assert told(lambda: None)["start.numpy"] == Start.UNKNOWN
    finally:
        np.random.set_bit_generator(before)


def test_nothing_is_drawn() -> None:
    before = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state()
    start = read_states()
    explain(start, read_states(), NOW_S, early=False)
    assert random.getstate() == before[0]
    assert np.random.get_state()[1].tolist() == before[1]
    assert torch.equal(torch.get_rng_state(), before[2])
