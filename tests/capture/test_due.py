"""Captures due in a step, and the forwards after which none is captured."""

from __future__ import annotations

from mothtrap.capture.due import OPEN_FORWARDS
from mothtrap.capture.plan import Plan
from mothtrap.capture.selection import streams
from mothtrap.core.config import Config
from mothtrap.core.facts.captures import Dropped
from mothtrap.core.steps import Mode
from mothtrap.core.tensors import TensorInfo


def test_so_many_forwards_are_captured_and_the_others_counted() -> None:
    plan = Plan(streams(Config(capture="everything"), []), 0.0)
    plan.selection.define(0, TensorInfo(kind="activation", name="head"))
    plan.begin(7)
    due, wanted = plan.due, plan.due.statistics(0)
    assert wanted == due.of_kind("activation")
    found = [due.count_forward() for _ in range(OPEN_FORWARDS + 2)]
    assert found == [True] * OPEN_FORWARDS + [False] * 2
    plan.begin(7)  # collections took effect in this step
    assert due.is_enough
    assert not due.is_due("activation")
    assert due.is_due("weight")
    assert not (due.statistics(0))
    assert not (due.of_kind("activation"))
    assert due.statistics(0, Mode.EVAL) == wanted
    told = due.forget_forwards(7)
    assert isinstance(told, Dropped)
    assert (told.step, told.what, told.count) == (7, "forwards", 2)
    assert due.forget_forwards(8) is None
    assert due.is_due("activation")
    assert due.statistics(0) == wanted
