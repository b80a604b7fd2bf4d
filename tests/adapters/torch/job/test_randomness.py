"""Random states are read without drawing, and put back exactly."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from mothtrap.adapters.torch.job import randomness
from mothtrap.adapters.torch.job.randomness import RandomStates, restore


@pytest.fixture(autouse=True)
def own_states() -> Iterator[None]:
    before = dict(RandomStates().read())
    yield
    restore(before)


def _draw() -> tuple[Any, ...]:
    python = random.random(), random.gauss(0, 1)
    return *python, np.random.rand(), np.random.randn(), *torch.randn(3).tolist()


@pytest.mark.parametrize("number", range(4))
def test_states_lead_to_the_same_numbers(number: int) -> None:
    """This includes states in which the second half of a pair of normal numbers is cached."""
    for _ in range(number):
        random.gauss(0, 1), np.random.randn()
    states = dict(RandomStates().read())
    drawn = _draw(), _draw()
    assert restore(states) == []
    assert (_draw(), _draw()) == drawn


def test_every_change_is_seen() -> None:
    reading = RandomStates()
    changes = (
        ("python", random.random),
        ("python", lambda: random.gauss(0, 1)),
        ("python", lambda: random.gauss(0, 1)),
        ("numpy", np.random.rand),
        ("numpy", np.random.randn),
        ("numpy", np.random.randn),
        ("cpu", lambda: torch.rand(1)),
        ("python", lambda: random.seed(3)),
        ("numpy", lambda: np.random.seed(3)),
        ("cpu", lambda: torch.manual_seed(3)),
    )
    for name, change in changes:
        before = dict(reading.read())
        change()
        states = dict(reading.read())
        after = _draw()
        restore(states)
        assert _draw() == after
        assert states[name] is not before[name], name


def test_what_has_not_changed_is_the_same_object() -> None:
    reading = RandomStates()
    random.seed(0), np.random.seed(0)
    before = dict(reading.read())
    assert all(state is before[name] for name, state in reading.read())


def test_a_generator_that_lies_otherwise_in_memory_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(randomness, "python_mark", lambda _: ())
    test_states_lead_to_the_same_numbers(1)
    reading = RandomStates()
    before = dict(reading.read())
    random.random()
    assert dict(reading.read())["python"] is not before["python"]


def test_another_kind_of_generator_of_numpys() -> None:
    before = np.random.get_bit_generator()  # type: ignore[attr-defined]
    np.random.set_bit_generator(np.random.PCG64(1))  # type: ignore[attr-defined]
    try:
        test_states_lead_to_the_same_numbers(1)
    finally:
        np.random.set_bit_generator(before)  # type: ignore[attr-defined]


def test_a_state_of_a_device_that_is_not_there_is_said() -> None:
    if torch.cuda.is_available():
        pytest.skip("there is one")
    [text] = restore({"cuda:0": np.zeros(16, np.uint8)})
    assert "cuda:0" in text


def test_a_state_that_is_none_is_said_and_the_others_put_back() -> None:
    states = dict(RandomStates().read())
    drawn = torch.rand(2)
    [text] = restore({**states, "python": {"version": 3}})
    assert "python" in text
    assert torch.equal(torch.rand(2), drawn)
