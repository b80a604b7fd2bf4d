"""Rules in the short form: functions and classes with `@mothtrap.rule` above them."""

from __future__ import annotations

import dataclasses

import pytest
from tests.rules.windows import loss, window

import mothtrap
from mothtrap.core.errors import ConfigError, NotEnoughData
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.thresholds import describe
from mothtrap.core.window import Window

LOW = [0.5] * 4
HIGH = [0.5, 0.5, 9.0, 0.5, 8.0]
NEEDS = (mothtrap.Need(kinds=("gradient",), statistics=("l2",)),)


@mothtrap.rule("LOS901", severity="info", needs=NEEDS, explains=("loss_diverging",), passes=True)
def high_loss(window: Window, *, limit: float = 5.0, least: int = 1):
    """A loss is high.

    What to do:
        - Look at the batch of that step.
    """
    [series] = window.scalars("loss") or [None]
    if series is None:
        raise NotEnoughData("no loss was seen")
    high_S = series.values_S > limit
    if high_S.sum() >= least:
        steps_S = series.steps_S[high_S]
        yield mothtrap.Found(
            step=int(steps_S[0]),
            last_step=int(steps_S[-1]),
            count=len(steps_S),
            message=f"the loss passes {limit:g}",
            evidence={"limit": limit},
            layers=("head",),
        )


@mothtrap.rule("LOS902")
class VeryHighLoss(mothtrap.Rule):
    """A loss is very high."""

    needs = NEEDS
    limit: float = mothtrap.threshold(100.0, unit="of the loss", source="chosen by hand")

    def check(self, window: Window) -> list[Finding]:
        """Judge nothing."""
        return []


def test_a_function_becomes_a_rule_with_thresholds() -> None:
    assert (high_loss.code, high_loss.name(), high_loss.needs) == ("LOS901", "high_loss", NEEDS)
    assert (high_loss.explains, high_loss.passes) == (("loss_diverging",), True)
    assert [field.name for field in dataclasses.fields(high_loss)] == ["limit", "least"]
    assert high_loss(limit=3.0) == high_loss(limit=3.0) != high_loss()
    with pytest.raises(dataclasses.FrozenInstanceError):
        high_loss().limit = 1.0


def test_a_threshold_of_a_function_has_a_unit_and_a_source() -> None:
    @mothtrap.rule("LOS904", title="odd loss", compares=True)
    def odd_loss(
        window: Window,
        *,
        limit: float = mothtrap.threshold(3, unit="of the loss", source="chosen by hand"),
    ):
        return mothtrap.Found(step=0, message=f"above {limit}")

    assert describe(odd_loss) == {"limit": ("of the loss", "chosen by hand")}
    assert (odd_loss.title, odd_loss.compares, odd_loss().limit) == ("odd loss", True, 3)
    assert odd_loss(limit=5.0).check(window(loss(LOW)))[0].message == "above 5.0"


def test_what_a_function_found_is_completed() -> None:
    [finding] = high_loss().check(window(loss(HIGH)))
    assert (finding.code, finding.name, finding.severity) == ("LOS901", "high_loss", Severity.INFO)
    assert (finding.step, finding.last_step, finding.count) == (2, 4, 2)
    assert finding.detected_step == 4
    assert finding.layers == ("head",)
    assert finding.fingerprint
    assert finding.fixes == ("Look at the batch of that step.",)
    assert high_loss().check(window(loss(LOW))) == []
    assert high_loss(least=3).check(window(loss(HIGH))) == []
    with pytest.raises(NotEnoughData):
        high_loss().check(window(steps=0))


def test_a_class_becomes_a_frozen_rule_named_in_small_letters() -> None:
    assert (VeryHighLoss.code, VeryHighLoss.name()) == ("LOS902", "very_high_loss")
    assert VeryHighLoss().limit == 100.0
    assert VeryHighLoss.needs == NEEDS
    assert hash(VeryHighLoss()) == hash(VeryHighLoss())


@pytest.mark.parametrize(
    "said",
    [None, [], (), mothtrap.Found(step=0, message="m"), [mothtrap.Found(step=0, message="m")]],
    ids=["none", "list", "tuple", "one", "list of one"],
)
def test_a_function_may_say_it_in_several_ways(said: object) -> None:
    @mothtrap.rule("LOS903", severity="error")
    def told(window):
        return said

    found = told().check(window(steps=3))
    assert [f.severity for f in found] == [Severity.ERROR] * bool(said)


def test_a_finding_may_have_a_severity_of_its_own() -> None:
    @mothtrap.rule("LOS903", severity="error")
    def told(window):
        return mothtrap.Found(step=0, message="m", severity="info")

    assert [f.severity for f in told().check(window(steps=1))] == [Severity.INFO]


@pytest.mark.parametrize("said", [3, "high", ["high"], [{"step": 3}]])
def test_what_is_no_finding_is_named(said: object) -> None:
    @mothtrap.rule("LOS903")
    def told(window):
        return said

    with pytest.raises(TypeError, match=r"the rule told returned .*expected mothtrap\.Found"):
        told().check(window(steps=1))


def no_window(*, limit=1.0):
    return []


def no_default(window, *, limit):
    return []


def positional(window, limit=1.0):
    return []


class NoRule:
    def check(self, window):
        return []


class NoCheck(mothtrap.Rule):
    """Nothing."""


@dataclasses.dataclass
class Changing(mothtrap.Rule):
    """Not frozen."""

    def check(self, window):
        return []


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (no_window, "must take the window as its first argument"),
        (no_default, "has the argument 'limit'; .*only thresholds"),
        (positional, "has the argument 'limit'; .*keyword-only"),
        (NoRule, r"must derive from mothtrap\.Rule"),
        (NoCheck, r"has no method check\(window\)"),
        (Changing, "must be a frozen dataclass"),
    ],
)
def test_what_cannot_be_a_rule_is_an_error_at_once(made: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        mothtrap.rule("LOS903")(made)


@pytest.mark.parametrize("code", ["los901", "LOS1", "L901", "LOS9011", ""])
def test_a_code_is_capitals_and_three_digits(code: str) -> None:
    with pytest.raises(ConfigError, match="capital letters and three digits"):
        mothtrap.rule(code)
