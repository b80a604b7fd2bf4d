"""Schedules of every kind, for tests that apply to all of them."""

from __future__ import annotations

from hypothesis import strategies as st

from mothtrap.core.schedule import Schedule


@st.composite
def _schedules(draw: st.DrawFn) -> Schedule:
    every = draw(st.none() | st.integers(1, 50))
    start = draw(st.integers(0, 120))
    return Schedule(
        every=every,
        start=start,
        stop=draw(st.none() | st.integers(start + 1, 220)),
        steps=tuple(draw(st.lists(st.integers(0, 220), max_size=4))),
        logarithmic=every is None and draw(st.booleans()),
    )


SCHEDULES = _schedules()
