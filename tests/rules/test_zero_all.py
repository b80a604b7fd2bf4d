"""AllZero of SageMaker Debugger: `collection_names` and `tensor_regex` are patterns in
`tensors`, `threshold` is `percent`.
"""

from __future__ import annotations

import pytest
from tests.rules.weights import tensors
from tests.rules.windows import window

from mothtrap.core.config import Config
from mothtrap.core.errors import ConfigError, NotApplicable, NotEnoughData
from mothtrap.core.findings import Finding, Severity
from mothtrap.monitor.catalogue import load_rules
from mothtrap.rules.zero_all import ZeroAll

STEPS = [0, 50, 100]


def check(rule: ZeroAll, zeros: list[float], *, kind: str = "gradient") -> list[Finding]:
    full = {"0.weight": [0.0] * 3, "2.weight": zeros}
    return rule.check(
        window(
            tensors("zero", full, kind=kind, steps=STEPS),
            tensors("count", {name: [64.0] * 3 for name in full}, kind=kind, steps=STEPS),
        )
    )


def test_fires_on_a_tensor_that_is_all_zero() -> None:
    [finding] = check(ZeroAll(tensors="gradients:*"), [0.0, 64.0, 64.0])
    assert (finding.severity, finding.step, finding.count) == (Severity.WARNING, 50, 2)
    assert finding.layers == ("2.weight",)
    assert finding.location == "model.py:2"


def test_fires_from_the_given_percentage_on() -> None:
    assert check(ZeroAll(tensors="gradients", percent=50.0), [0.0, 31.0, 31.0]) == []
    [finding] = check(ZeroAll(tensors="gradients", percent=50.0), [0.0, 31.0, 32.0])
    assert (finding.step, finding.evidence["value"]) == (100, 50.0)


@pytest.mark.parametrize(
    ("patterns", "fires"),
    [
        ("gradients", True),
        ("gradient:2.*", True),
        ("re:gradient:.*2\\.weight$", True),
        ("weights gradients:2.weight", True),
        ("*:0.*, gradients:2.*", True),
        ("gradients:0.*", False),
    ],
)
def test_tensors_are_named_as_in_collections(patterns: str, fires: bool) -> None:
    assert bool(check(ZeroAll(tensors=patterns), [64.0] * 3)) is fires


def test_it_needs_what_is_named_and_nothing_else() -> None:
    [need] = ZeroAll(tensors="gradients:2.*, weights", every_steps=7).needs
    assert need.kinds == ("weight", "gradient")
    assert (need.tensors, need.every) == (("gradients:2.*", "weights"), 7)
    assert ZeroAll().needs == ()


def test_the_configuration_names_the_tensors() -> None:
    settings = {"NUM010": {"tensors": "gradients:*", "percent": 90}}
    [rule] = load_rules(Config(select=("NUM010",), rules=settings))
    assert rule == ZeroAll(tensors="gradients:*", percent=90.0)
    assert len(rule.needs) == 1


def test_a_pattern_that_matches_nothing_is_an_error_before_the_start() -> None:
    with pytest.raises(ConfigError, match=r"NUM010.*'gradent:\*' has an unknown kind"):
        ZeroAll(tensors="gradent:*")


def test_says_why_it_cannot_judge() -> None:
    with pytest.raises(NotApplicable, match="no tensors are selected"):
        check(ZeroAll(), [64.0] * 3)
    with pytest.raises(NotEnoughData, match="activations was captured"):
        check(ZeroAll(tensors="activations"), [64.0] * 3)


def test_tensors_without_elements_are_not_zero() -> None:
    parts = (
        tensors("zero", {"0.weight": [0.0]}, steps=[0]),
        tensors("count", {"0.weight": [0.0]}, steps=[0]),
    )
    assert ZeroAll(tensors="weights").check(window(*parts)) == []
