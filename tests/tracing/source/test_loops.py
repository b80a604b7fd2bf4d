"""Iterations of the loops around a line, read from the source."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mothtrap.tracing.source.loops import restarted, turns_around

Turns = list[float]


def turns_in(folder: Path, text: str) -> Turns:
    """Run a script that calls `look()` once, and return the loops around this call."""
    script = folder / "loops.py"
    script.write_text(text)
    found: list[Turns] = []

    def look() -> None:
        found.append(turns_around(sys._getframe(1)))
        raise StopIteration  # one call is enough

    options = argparse.Namespace(epochs=4, config={"steps": 6})
    names = {"look": look, "args": options, "Loader": Loader, "stream": stream}
    with pytest.raises((StopIteration, RuntimeError)):
        exec(compile(text, str(script), "exec"), names)
    return [turns for turns in found[0] if turns != -1]


class Loader:
    """A loader of five batches."""

    def __len__(self) -> int:
        return 5

    def __iter__(self) -> Iterator[int]:
        return iter(range(5))


def stream() -> Iterator[int]:
    """An endless source."""
    while True:
        yield 1


@pytest.mark.parametrize(
    ("text", "turns"),
    [
        ("for e in range(3):\n    for b in Loader():\n        look()\n", [math.nan, 3]),
        ("l = Loader()\nfor e in range(3):\n    for b in l:\n        look()\n", [5, 3]),
        ("l = Loader()\nfor e in range(1, args.epochs + 1):\n"
         "    for n, b in enumerate(l):\n        look()\n", [5, 4]),
        ("for step in range(args.config['steps'] * 2):\n    look()\n", [12]),
        ("while True:\n    look()\n", [math.nan]),
        ("for b in stream():\n    look()\n", [math.nan]),
        ("for e in range(2):\n    pass\nlook()\n", []),
        ("l = Loader()\ndef epoch(loader):\n    for b in loader:\n        look()\n"
         "for e in range(7):\n    epoch(l)\n", [5, 7]),
        ("for e in range(9):\n    for b in range(2):\n        pass\n"
         "    else:\n        look()\n", [9]),
    ],
    ids=["call of a class", "loader", "enumerate", "items", "while", "stream", "after", "function",
         "else"],
)  # fmt: skip
def test_loops_around_a_line(tmp_path: Path, text: str, turns: Turns) -> None:
    found = turns_in(tmp_path, text)
    own = found[: len(turns)]
    assert own == pytest.approx(turns, nan_ok=True)


def test_the_expression_of_a_loop_is_not_run_again(tmp_path: Path) -> None:
    made: list[int] = []
    look: Callable[[], Turns] = lambda: turns_around(sys._getframe(1))  # noqa: E731
    script = tmp_path / "once.py"
    text = "for one in count():\n    found = look()\n"
    script.write_text(text)

    def count() -> list[int]:
        made.append(1)
        return [1, 2]

    names: dict[str, object] = {"count": count, "look": look}
    exec(compile(text, str(script), "exec"), names)
    assert made == [1]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("l = Loader()\nfor _ in range(3):\n    b = next(iter(l))\n    look()\n", ("l", 4)),
        ("l = iter(Loader())\nfor _ in range(3):\n    b = next(l)\n    look()\n", ("", 0)),
        ("l = [1]\nfor _ in range(3):\n    b = next(iter(l))\n    look()\n", ("", 0)),
        ("for _ in range(3):\n    b = next(iter(stream()))\n    look()\n", ("", 0)),
    ],
    ids=["anew", "once", "a single batch", "unknown"],
)
def test_an_iterator_made_in_each_turn(tmp_path: Path, text: str, found: tuple[str, int]) -> None:
    script = tmp_path / "anew.py"
    script.write_text(text)
    seen: list[tuple[str, int]] = []
    names = {"look": lambda: seen.append(restarted(sys._getframe(1))), "Loader": Loader}
    exec(compile(text, str(script), "exec"), names | {"stream": stream})
    assert seen[0] == found
