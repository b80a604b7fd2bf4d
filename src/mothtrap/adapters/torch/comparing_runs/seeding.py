"""Find out whether random number generators were seeded, and with which seed.

No numbers are drawn from a global generator, and no function is replaced. Separate generators
relate the states at the import of the framework to the states at the end of the first step.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from mothtrap.core.ledger import LedgerValue, Start

WORDS = 624
"""Number of words in the state of a Mersenne Twister, which are all generated together."""
TURNS = 512
"""Maximum number of times that all words are regenerated when following a state: 300,000 numbers.
Chosen by hand: a few milliseconds.
"""
SEED_TURNS = 16
"""The same limit for each seed that is tried."""
USUAL_SEEDS = (*range(11), 42, 100, 123, 1234, 12345, 1337, 2023, 2024, 2025, 3407)
CLOCK_TURNS, CLOCK_TRIED_S = 1, 120
"""The same limit for each second before the end of the first step, and the number of seconds tried.
"""
SMALL_SEED = 1 << 32
"""The system's entropy gives a number below this limit once in four billion times."""
CLOCK_S = 366 * 86400.0
"""A seed this close to the time of the job, in seconds, is assumed to be a time."""

_Words = tuple[int, ...]
Array = npt.NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class States:
    """States of the global generators at a point in time, read without drawing numbers.

    Attributes:
        python: state of `random`: words and position.
        numpy: state of NumPy's global generator; None if it is not a Mersenne twister.
        torch_seed: the seed of the framework's generator on the host.
    """

    python: _Words
    numpy: _Words | None
    torch_seed: int


class RandomStart:
    """States of the generators when observation began.

    Attributes:
        states: the states; None until they are read.
        early: state before the script could seed the framework's generator.
    """

    def __init__(self) -> None:
        self.states: States | None = None
        self.early = False

    def read(self) -> None:
        """Read the current states."""
        self.states = read_states()


def read_states() -> States:
    """Read the current states."""
    found: Any = np.random.get_state(legacy=False)
    twister = found["bit_generator"] == "MT19937"
    state = found["state"]
    return States(
        python=random.getstate()[1],
        numpy=(*state["key"].tolist(), int(state["pos"])) if twister else None,
        torch_seed=torch.initial_seed(),
    )


def explain(
    start: States, end: States, now_s: float, seeds: Iterable[int] = (), *, early: bool
) -> dict[str, LedgerValue]:
    """Describe how generators were seeded between two points in time; takes a few milliseconds.

    Args:
        start: states at the first moment.
        end: states at the second moment.
        now_s: Unix time of the second moment.
        seeds: seeds that are tried first, e.g. numbers of the command line.
        early: the first moment was before the script could seed the framework's generator.

    Returns:
        `start.NAME` (see `Start`), and `seed.NAME` if the seed is known.
    """
    facts: dict[str, LedgerValue] = {}
    given = end.torch_seed
    facts["start.torch"] = _of_torch(start.torch_seed, given, now_s, early=early)
    if facts["start.torch"] in (Start.SEEDED, Start.CLOCK):
        facts["seed.torch"] = given
    tried = [*dict.fromkeys((given, *seeds, *USUAL_SEEDS))]
    for name, before, after, twister in (
        ("python", start.python, end.python, _Python),
        ("numpy", start.numpy, end.numpy, _Numpy),
    ):
        if before is None or after is None:
            facts[f"start.{name}"] = Start.UNKNOWN
        elif before == after and early:
            facts[f"start.{name}"] = Start.UNUSED
        else:
            facts |= _of_twister(name, before, after, twister, tried, now_s, early=early)
    return facts


def _of_twister(
    name: str,
    before: _Words,
    after: _Words,
    twister: type[_Python | _Numpy],
    tried: Sequence[int],
    now_s: float,
    *,
    early: bool,
) -> dict[str, LedgerValue]:
    """Return how one generator was initialized."""
    seed = _seed_of(after, tried[:1], twister)  # most scripts use the same seed for all
    same = seed is None and _leads(twister(before), after, TURNS)
    if seed is None:
        seed = _seed_of(after, tried[1:], twister)
    if seed is None and not same:
        seconds = range(int(now_s), int(now_s) - CLOCK_TRIED_S, -1)
        seed = next((s for s in seconds if _leads(twister(s), after, CLOCK_TURNS)), None)
    if seed is not None:
        start = Start.CLOCK if is_clock(seed, now_s) else Start.SEEDED
        return {f"start.{name}": start, f"seed.{name}": seed}
    if same:
        return {f"start.{name}": Start.UNSEEDED if early else Start.UNKNOWN}
    return {f"start.{name}": Start.SEEDED}


def is_clock(seed: int, now_s: float) -> bool:
    """Return whether a seed is approximately the current time, in seconds or finer."""
    return any(abs(seed - now_s * unit) < CLOCK_S * unit for unit in (1, 1e3, 1e6, 1e9))


def _of_torch(before: int, after: int, now_s: float, *, early: bool) -> str:
    if is_clock(after, now_s):
        return Start.CLOCK
    if 0 <= after < SMALL_SEED:
        return Start.SEEDED
    if before == after:
        return Start.UNSEEDED if early else Start.UNKNOWN
    return Start.UNKNOWN  # a large seed, or the system's entropy through `torch.seed()`


class _Twister:
    """A separate generator that starts in the state of a global one, or with a seed."""

    def words(self) -> _Words:
        """Return its words."""
        raise NotImplementedError

    def draw(self, turns: int) -> Array:
        """Draw all numbers of the next turns, shape (turns, words)."""
        raise NotImplementedError


class _Python(_Twister):
    def __init__(self, state: _Words | int) -> None:
        self._own = random.Random(state if isinstance(state, int) else 0)
        if not isinstance(state, int):  # starting after the last word
            self._own.setstate((3, (*state[:WORDS], WORDS), None))

    def words(self) -> _Words:
        words: _Words = self._own.getstate()[1][:WORDS]
        return words

    def draw(self, turns: int) -> Array:
        bits = self._own.getrandbits(32 * WORDS * turns)
        drawn = bits.to_bytes(4 * WORDS * turns, "little")
        return np.frombuffer(drawn, "<u4").reshape(turns, WORDS)


class _Numpy(_Twister):
    def __init__(self, state: _Words | int) -> None:
        self._own = np.random.RandomState(state % SMALL_SEED if isinstance(state, int) else 0)
        if not isinstance(state, int):
            words = np.array(state[:WORDS], np.uint32)
            self._own.set_state(("MT19937", words, WORDS, 0, 0.0))

    def words(self) -> _Words:
        state: Any = self._own.get_state(legacy=False)
        return tuple(state["state"]["key"].tolist())

    def draw(self, turns: int) -> Array:
        drawn = self._own.bytes(4 * WORDS * turns)
        return np.frombuffer(drawn, "<u4").reshape(turns, WORDS)


def _seed_of(state: _Words, seeds: Sequence[int], twister: type[_Python | _Numpy]) -> int | None:
    """Find the seed that leads to a state; the first seed is followed furthest."""
    for seed in seeds:
        turns = TURNS if seed is seeds[0] else SEED_TURNS
        if (seed >= 0 or twister is _Python) and _leads(twister(seed), state, turns):
            return seed
    return None


def _leads(generator: _Twister, state: _Words, turns: int) -> bool:
    """Return whether a generator reaches the words of a state within some turns."""
    wanted = state[:WORDS]
    if generator.words() == wanted:
        return True
    return bool((generator.draw(turns) == _numbers_of(wanted)).all(axis=1).any())


@functools.lru_cache(maxsize=2)
def _numbers_of(words: _Words) -> Array:
    """Return the numbers that a Mersenne twister draws from its words, by its definition."""
    drawn_W = np.array(words, np.uint32)
    drawn_W ^= drawn_W >> 11
    drawn_W ^= (drawn_W << 7) & np.uint32(0x9D2C5680)
    drawn_W ^= (drawn_W << 15) & np.uint32(0xEFC60000)
    drawn_W ^= drawn_W >> 18
    return drawn_W
