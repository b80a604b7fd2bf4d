from __future__ import annotations

import pytest
from tests.rules.windows import loss, window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.loss_terms import DetachedTerm
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.detached_term import detached_term


def check(
    values: tuple[float, ...],
    without_graph: int | None = None,
    name: str = "penalty",
    equal: tuple[str, str] | None = None,
) -> list[Finding]:
    looks = len(values)
    term = DetachedTerm(
        step=11,
        term=name,
        looks=looks,
        without_graph=looks if without_graph is None else without_graph,
        values=values,
        optimizers=("Adam",),
        equal=equal,
        location="train.py:7",
    )
    return detached_term().check(window(loss([1.0] * 20), term))


def test_a_term_without_a_gradient_is_reported() -> None:
    [finding] = check((0.4, 0.3, 0.5, 0.2, 0.1))
    assert (finding.severity, finding.location) == (Severity.WARNING, "train.py:7")
    assert "penalty in the loss has no gradient in 5 of 5 backward passes" in finding.message
    assert "Compute the term from the output of the model" in finding.fixes[0]


@pytest.mark.parametrize("name", ["gradient_penalty", "loss_gp", "grad_penalty"])
def test_the_first_fix_of_a_gradient_penalty_is_its_graph(name: str) -> None:
    [finding] = check((0.4, 0.3, 0.5, 0.2, 0.1), name=name)
    assert "create_graph=True" in finding.fixes[0]


def test_a_term_that_trains_another_optimizers_parameters_is_reported() -> None:
    [finding] = check((0.4, 0.3, 0.5, 0.2, 0.1), without_graph=0)
    assert "penalty in the loss reaches no parameter of Adam" in finding.message
    assert "give the discriminator its output without `.detach()`" in finding.fixes[0]


def test_a_term_that_compares_equal_tensors_is_reported() -> None:
    [finding] = check((0.0,) * 5, equal=("soft", "teacher"))
    assert "penalty in the loss compares `soft` with `teacher`, which are equal" in finding.message
    assert finding.fixes[0].startswith("Compare the output of the model that is trained")


@pytest.mark.parametrize(
    "values",
    [
        pytest.param((0.0,) * 5, id="switched off"),
        pytest.param((2.5,) * 5, id="an offset"),
        pytest.param((0.4, 0.3), id="few looks"),
        pytest.param((), id="no numbers"),
    ],
)
def test_stays_quiet(values: tuple[float, ...]) -> None:
    assert check(values) == []


def test_needs_a_few_steps() -> None:
    with pytest.raises(NotEnoughData, match="needs 4 steps, saw 0"):
        detached_term().check(window())
