"""Base class for tests of a rule."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from typing import ClassVar

import numpy as np

from mothtrap.core.errors import CannotJudge
from mothtrap.core.findings import Finding
from mothtrap.core.rule import Rule
from mothtrap.core.ruledoc import HEADINGS
from mothtrap.core.window import Matrix, Series, Window
from mothtrap.statistics.summary import STATISTICS
from mothtrap.testing.declared import declared
from mothtrap.testing.windows import window


class RuleTests:
    """Tests for a rule.

    Derive a test class from it::

        class TestHeavyWeight(RuleTests):
            rule = heavy_weight

            def sick(self):
                yield window(statistic("weight", "l2", {"head.weight": [1.0, 200.0]}))

            def healthy(self):
                yield window(statistic("weight", "l2", {"head.weight": [1.0, 1.1]}))

    Attributes:
        rule: the tested rule's class.
        headings: required sections of the docstring; by default all sections.
    """

    rule: ClassVar[type[Rule]]
    headings: ClassVar[tuple[str, ...]] = HEADINGS

    def sick(self) -> Iterable[Window]:
        """Return windows in which the rule, with default thresholds, finds the fault."""
        raise NotImplementedError("yield windows in which the rule must find something")

    def healthy(self) -> Iterable[Window]:
        """Return windows in which the rule finds nothing, or raises `CannotJudge`."""
        raise NotImplementedError("yield windows in which the rule must find nothing")

    def test_fires(self) -> None:
        """Each sick window gives at least one finding of the rule, with a place and a message."""
        windows = list(self.sick())
        assert windows, "sick() yields no window"
        for number, seen in enumerate(windows):
            found = self.rule().check(seen)
            assert found, f"nothing was found in sick window {number}"
            for finding in found:
                self._is_whole(finding, seen)

    def test_stays_quiet(self) -> None:
        """No healthy window gives a finding."""
        windows = list(self.healthy())
        assert windows, "healthy() yields no window"
        for number, seen in enumerate(windows):
            found = self._judged(seen)
            assert not found, f"found in healthy window {number}: {found}"

    def test_is_silent_on_an_empty_window(self) -> None:
        """A window without steps gives no finding; preferably, the rule raises NotEnoughData."""
        found = self._judged(window(steps=0))
        assert not found, f"found in an empty window: {found}"

    def test_is_deterministic_and_leaves_the_window_as_it_was(self) -> None:
        """The same window gives the same findings, and its arrays stay unchanged."""
        for seen in (*self.sick(), *self.healthy()):
            before = repr(seen)
            first = self._judged(_read_only(seen))
            again = self._judged(seen)
            assert repr(again) == repr(first), f"first {first}, then {again}"
            assert repr(seen) == before, "the window was changed"

    def test_reads_nothing_beyond_its_needs(self) -> None:
        """The rule reads only statistics, scalars and facts that its needs name."""
        for seen in (*self.sick(), *self.healthy()):
            needed = self._judged(declared(seen, self.rule().needs))
            everything = self._judged(seen)
            assert repr(needed) == repr(everything), (
                f"with only the data that {self.rule.code} needs: {needed}; with all data: "
                f"{everything}"
            )

    def test_is_documented(self) -> None:
        """The docstring has a summary and all required sections, and no section is empty."""
        doc = self.rule.doc()
        assert doc.summary.endswith("."), f"the first line is not a sentence: {doc.summary!r}"
        missing = [heading for heading in self.headings if not doc.sections.get(heading)]
        assert not missing, f"the docstring lacks: {', '.join(missing)}"
        if "What to do" in self.headings:
            assert doc.fixes, "What to do has no bullet (a line that begins with `- `)"

    def test_is_made_as_rules_are(self) -> None:
        """The rule is frozen, needs no arguments, and has a valid code, names, and statistics."""
        assert re.fullmatch(r"[A-Z]{2,}\d{3}", self.rule.code), self.rule.code
        made = self.rule()
        assert made == self.rule(), "no dataclass"
        assert hash(made) == hash(self.rule()), "not a frozen dataclass"
        names = [field.name for field in dataclasses.fields(made)]  # type: ignore[arg-type]
        taken = [name for name in names if hasattr(Rule, name)]
        assert not taken, f"every rule has {', '.join(taken)}; rename the threshold"
        unknown = {name for need in self.rule.needs for name in need.statistics} - set(STATISTICS)
        assert not unknown, f"no statistics: {', '.join(sorted(unknown))}"

    def _judged(self, seen: Window) -> list[Finding]:
        try:
            return list(self.rule().check(seen))
        except CannotJudge:
            return []

    def _is_whole(self, finding: Finding, seen: Window) -> None:
        assert finding.code == self.rule.code, f"the code is {finding.code}"
        assert finding.message, "the finding has no message"
        assert finding.fingerprint, "the finding has no fingerprint; make it with self.finding()"
        assert 0 <= finding.step <= finding.last_step, "it ends before it begins"
        assert finding.step <= finding.detected_step == seen.last_step, "seen before it began"


def _read_only(seen: Window) -> Window:
    """Return a window whose arrays are read-only."""
    parts: list[Window | Series | Matrix] = [seen, *seen.series, *seen.matrices]
    for part in parts:
        for field in dataclasses.fields(part):
            value = getattr(part, field.name)
            if isinstance(value, np.ndarray):
                value.setflags(write=False)
    return seen
