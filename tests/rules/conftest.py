"""In every test, rules of the catalogue get only the data that their needs name."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mothtrap.core.findings import Finding
from mothtrap.core.rule import Rule
from mothtrap.core.window import Window
from mothtrap.monitor.catalogue import rule_classes
from mothtrap.testing.declared import declared


@pytest.fixture(autouse=True, scope="session")
def _declared_reads_only() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for rule in rule_classes():
            _refuse_undeclared_reads(rule, patch)
        yield


def _refuse_undeclared_reads(rule: type[Rule], patch: pytest.MonkeyPatch) -> None:
    unlimited = rule.check

    def check(self: Rule, window: Window) -> list[Finding]:
        return unlimited(self, declared(window, self.needs))

    patch.setattr(rule, "check", check)
