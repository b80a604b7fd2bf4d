"""Advice for users of every framework has no function of one of them."""

from __future__ import annotations

import re

from mothtrap.core.rule import Rule
from mothtrap.monitor.catalogue import rule_classes

OF_PYTORCH = re.compile(
    r"torch\.|\bnn\.[A-Z]|\bF\.[a-z]|DataLoader\(|GradScaler|autocast|state_dict|\.detach\("
    r"|\.backward\(|zero_grad\(|no_grad|\.item\(|requires_grad|register_buffer|masked_fill"
)
OF_OTHERS = re.compile(r"\btf\.|\bkeras\.|GradientTape|\bjax\.|\bjnp\.|\boptax\.|\beqx\.")
PYTORCH_ONLY = frozenset({"schedule_of_batches", "freeze_without_effect"})
"""The first takes its bullets by their places."""


def general(rule: type[Rule]) -> list[str]:
    return [text for frameworks, text in rule.doc().bullets() if "" in frameworks]


def test_general_advice_has_no_function_of_pytorch() -> None:
    found = [
        f"{rule.code} {rule.name()}: {text}"
        for rule in rule_classes()
        if rule.name() not in PYTORCH_ONLY
        for text in general(rule)
        if OF_PYTORCH.search(text)
    ]
    assert not found, "begin these with `PyTorch: `:\n" + "\n".join(found)


def test_a_rule_with_advice_for_a_framework_names_each() -> None:
    found = [
        f"{rule.code} {rule.name()}: {text}"
        for rule in rule_classes()
        if len(general(rule)) < len(list(rule.doc().bullets()))
        for text in general(rule)
        if OF_OTHERS.search(text)
    ]
    assert not found, "begin these with `Keras: ` or `JAX: `:\n" + "\n".join(found)
