"""The ring keeps the latest steps that fit, and counts shared data once."""

from __future__ import annotations

import random

from mothtrap.snapshot.ring import Ring


def test_the_oldest_make_room_by_bytes() -> None:
    ring: Ring[str] = Ring(100)
    for step in range(5):
        assert ring.push(step, f"step {step}", {f"own{step}": 30})
    assert list(ring) == [2, 3, 4]
    assert (ring.bytes_held, ring.get(1), ring.get(4)) == (90, None, "step 4")


def test_the_oldest_make_room_by_number() -> None:
    ring: Ring[int] = Ring(100, max_steps=3)
    for step in range(10):
        ring.push(step, step, {})
    assert list(ring) == [7, 8, 9]


def test_what_steps_share_is_counted_once_and_goes_with_the_last() -> None:
    ring: Ring[int] = Ring(100)
    for step in range(4):
        ring.push(step, step, {"shared": 40, f"own{step}": 20})
    assert list(ring) == [1, 2, 3]
    assert ring.bytes_held == 100
    ring.push(4, 4, {"own4": 90})
    assert list(ring) == [4]
    assert ring.bytes_held == 90


def test_a_step_that_alone_is_too_large_leaves_nothing_behind() -> None:
    ring: Ring[int] = Ring(100)
    ring.push(0, 0, {"a": 60})
    assert not ring.push(1, 1, {"b": 101})
    assert (list(ring), ring.bytes_held) == ([], 0)


def test_a_step_of_the_same_number_is_replaced() -> None:
    ring: Ring[str] = Ring(100)
    ring.push(3, "before", {"a": 60})
    ring.push(3, "after", {"b": 70})
    assert (ring.get(3), ring.bytes_held, len(ring)) == ("after", 70, 1)


def test_bytes_are_those_of_the_parts_there_are() -> None:
    """The reference counts everything anew, over many random steps."""
    draw, ring = random.Random(0), Ring[dict[str, int]](1000)
    sizes = {f"part{i}": draw.randrange(100) for i in range(60)}
    for step in range(500):
        parts = {name: sizes[name] for name in draw.sample(sorted(sizes), draw.randrange(12))}
        ring.push(step, parts, parts)
        held = {name for number in ring for name in ring.get(number) or {}}
        assert ring.bytes_held == sum(sizes[name] for name in held) <= 1000
