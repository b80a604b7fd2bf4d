"""Every rule that evaluates numbers names the chart that proves its findings."""

from __future__ import annotations

import pytest

from mothtrap.core.config import Config
from mothtrap.core.needs import required
from mothtrap.core.rule import Rule
from mothtrap.monitor.catalogue import load_rules
from mothtrap.statistics.summary import STATISTICS

RULES = [type(rule) for rule in load_rules(Config())]
WITHOUT = {
    "RUN907": "the time since the last checkpoint",
    "RUN904": "relations of any numbers, which the finding names",
}
"""Rules whose claim is not about a series, and what it is about."""


def needs_numbers(rule: type[Rule]) -> bool:
    """Return whether a rule must have scalars, or statistics of tensors."""
    return any(
        need.scalars or need.statistics
        for alternatives in required(rule.needs)
        for need in alternatives
    )


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_a_rule_on_numbers_names_its_chart(rule: type[Rule]) -> None:
    proof = rule.proof
    if proof is None:
        assert not needs_numbers(rule) or rule.code[:3] in ("TRE", "EST") or rule.code in WITHOUT
        return
    read = {name for need in rule.needs for name in need.scalars}
    assert set(proof.scalars) <= read | {"loss"}
    kind, _, statistic = proof.statistic.partition(".")
    assert not proof.statistic or statistic in STATISTICS
    kinds = {kind for need in rule.needs for kind in need.kinds}
    assert not kind or kind in kinds
    if proof.fact is not None:
        fields = set(proof.fact.__struct_fields__)
        assert {proof.field, *filter(None, (proof.over, proof.subject))} <= fields
        assert any(proof.fact in need.facts for need in rule.needs)
