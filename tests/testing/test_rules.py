"""RuleTests pass for a sound rule, and each of them fails for an unsound one."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

import mothtrap
from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.rule import Rule
from mothtrap.core.window import Window
from mothtrap.rules.exploding_gradient import ExplodingGradient
from mothtrap.testing import RuleTests
from mothtrap.testing.windows import loss, statistic, window

NEEDS = (mothtrap.Need(kinds=("weight",), statistics=("l2",)),)
HEAVY = window(statistic("weight", "l2", {"head.weight": [1.0, 200.0]}))
LIGHT = window(statistic("weight", "l2", {"head.weight": [1.0, 1.1]}))


@mothtrap.rule("ZZZ901", needs=NEEDS)
def heavy_weight(window: Window, *, limit: float = 100.0):
    """A weight is heavy.

    What to do:
        - Let the weights decay.
    """
    norms = window.matrix("weight", "l2")
    if norms is None:
        raise NotEnoughData("no weight was captured")
    heavy_S = (norms.values_ST > limit).any(axis=1)
    if heavy_S.any():
        yield mothtrap.Found(step=int(norms.steps_S[heavy_S][0]), message="heavy")


class TestHeavyWeight(RuleTests):
    rule = heavy_weight
    headings = ("What to do",)

    def sick(self):
        yield HEAVY

    def healthy(self):
        yield LIGHT
        yield window(loss([1.0, 0.5]))


class TestOneOfOurs(RuleTests):
    rule = ExplodingGradient

    def sick(self):
        norms = [1.0] * 60 + [2.0**n for n in range(1, 30)]
        yield window(statistic("gradient", "l2", {"a.weight": norms, "b.weight": norms}))

    def healthy(self):
        norms = [1.0] * 90
        yield window(statistic("gradient", "l2", {"a.weight": norms, "b.weight": norms}))


def suite_of(made: type[mothtrap.Rule], **windows: tuple[Window, ...]) -> RuleTests:
    class Suite(TestHeavyWeight):
        rule = made

        def sick(self):
            return windows.get("sick", (HEAVY,))

        def healthy(self):
            return windows.get("healthy", (LIGHT,))

    return Suite()


@mothtrap.rule("ZZZ902")
def curious(window: Window):
    """It reads what it does not need"""
    norms = window.matrix("weight", "l2")
    step = window.last_step
    return [mothtrap.Found(step=step, message="x")] if norms is not None and step > 0 else []


@mothtrap.rule("ZZZ906")
def gossip(window: Window):
    """It reads facts that it does not need."""
    list(window.seen(LossCall))
    return mothtrap.Found(step=0, message="x")


@mothtrap.rule("ZZZ907")
def loser(window: Window):
    """It reads scalars that it does not need."""
    return [mothtrap.Found(step=0, message="x") for _ in window.scalars("loss")]


@mothtrap.rule("ZZZ903")
def hasty(window: Window):
    """It always finds something."""
    return mothtrap.Found(step=0, message="x")


calls: list[int] = []


@mothtrap.rule("ZZZ904", needs=NEEDS)
def moody(window: Window):
    """It remembers, and writes."""
    calls.append(1)
    return mothtrap.Found(step=0, message=str(len(calls)))


@mothtrap.rule("ZZZ905", needs=NEEDS)
def writing(window: Window):
    """It writes into the window."""
    window.matrix("weight", "l2").values_ST[0] = 0.0


@dataclass(frozen=True)
class Replacing(Rule):
    """It has a threshold that replaces a flag of every rule."""

    code = "ZZZ906"
    passes: int = 2  # type: ignore[assignment, misc]

    def check(self, window: Window):
        return []


@pytest.mark.parametrize(
    ("suite", "test", "message"),
    [
        (suite_of(heavy_weight, sick=(LIGHT,)), "fires", "nothing was found in sick window 0"),
        (suite_of(heavy_weight, sick=()), "fires", "yields no window"),
        (suite_of(heavy_weight, healthy=(LIGHT, HEAVY)), "stays_quiet", "healthy window 1"),
        (suite_of(hasty), "is_silent_on_an_empty_window", "ZZZ903"),
        (
            suite_of(moody),
            "is_deterministic_and_leaves_the_window_as_it_was",
            "message='2'",
        ),
        (suite_of(curious), "reads_nothing_beyond_its_needs", "the rule reads l2 of weight"),
        (
            suite_of(gossip, sick=(window(loss([1.0, 2.0])),)),
            "reads_nothing_beyond_its_needs",
            "declare Need(facts=(LossCall,))",
        ),
        (
            suite_of(loser, sick=(window(loss([1.0, 2.0])),)),
            "reads_nothing_beyond_its_needs",
            'declare Need(scalars=("loss",))',
        ),
        (suite_of(curious), "is_documented", "the first line is not a sentence"),
        (suite_of(hasty), "is_documented", "lacks: What to do"),
        (suite_of(Replacing), "is_made_as_rules_are", "every rule has passes; rename"),
    ],
)
def test_each_test_can_fail(suite: RuleTests, test: str, message: str) -> None:
    with pytest.raises(AssertionError) as caught:
        getattr(suite, f"test_{test}")()
    assert message in str(caught.value)


def test_a_rule_that_writes_into_the_window_is_caught() -> None:
    with pytest.raises(ValueError, match="read-only"):
        suite_of(writing).test_is_deterministic_and_leaves_the_window_as_it_was()


def test_windows_must_be_given() -> None:
    with pytest.raises(NotImplementedError, match="must find something"):
        RuleTests().test_fires()
    with pytest.raises(NotImplementedError, match="must find nothing"):
        RuleTests().test_stays_quiet()
