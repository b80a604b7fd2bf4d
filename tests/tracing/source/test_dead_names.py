"""Variables that are assigned again before they are read."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

import pytest

from mothtrap.tracing.source.dead_names import dead_names

LOOP = """
rows = []
for n in range(3):
    rows = [n] * 20
    total = sum(rows)
    probe()
    {after}
"""


def dead_in(source: str, name: str = "rows", filename: str = "train.py") -> set[bool]:
    """Run a module; return what was said of a variable at each of its calls of `probe`."""
    found = set()

    def probe() -> None:
        frame = sys._getframe(1)
        found.add(name in dead_names(frame.f_code, frame.f_lasti))

    exec(compile(source, filename, "exec"), {"probe": probe, "context": open})
    return found


@pytest.mark.parametrize(
    "after",
    [
        "pass",
        "total = 0",
        "rows = [1]; total = len(rows)",
        "with context('/dev/null'): total = 1",
        "if n > 1: continue",
    ],
)
def test_a_list_that_each_pass_makes_anew_is_dead(after: str) -> None:
    assert dead_in(LOOP.format(after=after)) == {True}


@pytest.mark.parametrize(
    "after",
    [
        "total = len(rows)",
        "total = [row for row in rows]",
        "total = sum(row for row in rows)",
        "if n > 1: total = rows[0]",
        "if n > 1: rows = []\n    total = rows",
        "try: total = 1 // 0\n    except ZeroDivisionError: total = rows",
        "with context('/dev/null'): total = rows",
        "def later(): return rows",
        "total = lambda: len(rows)",
        "total = sorted(globals())",
        "total = eval('rows')",
        "del rows",
        "rows += [2]",
        "total = total.rows if n > 9 else 0",
    ],
)
def test_a_variable_that_may_be_read_is_not_dead(after: str) -> None:
    assert False in dead_in(LOOP.format(after=after))


def test_a_variable_that_is_read_after_the_loop_is_not_dead() -> None:
    assert dead_in(LOOP.format(after="pass") + "print(rows)") == {False}


def test_the_next_cell_of_a_notebook_may_read_each_variable() -> None:
    for filename in ("<ipython-input-3>", "/tmp/ipykernel_7/81.py"):
        assert dead_in(LOOP.format(after="pass"), filename=filename) == {False}


def in_function(probe: Callable[[], None]) -> Any:
    rows = [1]
    kept = [2]
    for n in range(3):
        rows = [n] * 20
        total = sum(rows)
        kept = [total]
        probe()

    def later() -> list[int]:
        return kept

    return later


def test_locals_are_dead_unless_an_inner_function_may_read_them() -> None:
    said = set()

    def probe() -> None:
        frame = sys._getframe(1)
        dead = dead_names(frame.f_code, frame.f_lasti)
        said.add(tuple(name in dead for name in ("rows", "kept")))

    in_function(probe)
    assert said == {(True, False)}


def made_up(pick: random.Random, depth: int = 0) -> list[str]:
    """Return the lines of a block that reads and assigns `x` in any order."""
    lines = []
    for _ in range(pick.randint(1, 4)):
        kind = pick.choice(("read", "write", "probe", "if", "for", "try") if depth < 3 else "rwp")
        if kind[0] in "rwp":
            lines.append({"r": "read(x)", "w": "x = write()", "p": "probe()"}[kind[0]])
            continue
        head = {"if": "if flip():", "for": "for _ in range(2):", "try": "try:"}[kind]
        lines += [head, *("    " + line for line in made_up(pick, depth + 1))]
        if kind == "for" and pick.random() < 0.5:
            lines.append(f"    if flip(): {pick.choice(('break', 'continue'))}")
        if kind == "try":
            lines += ["    fail()", "except ValueError:"]
        if kind == "try" or pick.random() < 0.5:
            lines += ["else:"] if kind != "try" else []
            lines += ["    " + line for line in made_up(pick, depth + 1)]
    return lines


@pytest.mark.parametrize("seed", range(150))
def test_nothing_that_is_called_dead_is_read(seed: int) -> None:
    pick = random.Random(seed)
    dead = False

    def probe() -> None:
        nonlocal dead
        frame = sys._getframe(1)
        dead = "x" in dead_names(frame.f_code, frame.f_lasti)

    def read(_: object) -> None:
        assert not dead

    def write() -> int:
        nonlocal dead
        dead = False
        return 1

    def fail() -> None:
        if pick.random() < 0.5:
            raise ValueError

    own = {"probe": probe, "read": read, "write": write, "fail": fail}
    own["flip"] = lambda: pick.random() < 0.5
    source = "\n".join(["x = 0", *made_up(pick), *made_up(pick)])
    exec(compile(source, "train.py", "exec"), own)
