"""AdapterTests pass for a sound adapter, and each of them fails for an unsound one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.testing import toyframe, toyframe_adapter

from mothtrap.core.facts.losses import LossCall
from mothtrap.core.options import EVERY
from mothtrap.core.reports import Reports
from mothtrap.testing import AdapterTests


class TestToyframe(AdapterTests):
    adapter = toyframe_adapter.ADAPTER
    steps = 12
    replaced = (toyframe.Model,)

    def train(self) -> bytes:
        return toyframe.train(self.steps).weight.tobytes()

    def reported(self) -> Sequence[Callable[[], object]]:
        return [self.train]


def suite(**changed: Any) -> AdapterTests:
    """Return the suite of the toy with some parts of its adapter changed."""
    made = TestToyframe()
    made.adapter = replace(toyframe_adapter.ADAPTER, **changed)  # type: ignore[misc]
    return made


def broken(**methods: object) -> AdapterTests:
    """Return the suite of the toy with some methods of its handle replaced."""
    return suite(handle=type("Broken", (toyframe_adapter.Handle,), methods))


@pytest.fixture(autouse=True)
def _whole(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("update", "evaluate"):  # restores what a broken adapter leaves changed
        monkeypatch.setattr(toyframe.Model, name, vars(toyframe.Model)[name])


def test_an_adapter_that_changes_the_training_is_caught() -> None:
    def after(self, model, loss, *_):
        model.weight = model.weight * (1 + 1e-15)
        toyframe_adapter.Handle._after(self, model, loss)

    with pytest.raises(AssertionError, match="different weights"):
        broken(_after=after).test_training_is_bit_identical()


def test_an_adapter_that_stays_is_caught() -> None:
    with pytest.raises(AssertionError, match=r"keeps evaluate, update"):
        broken(detach=lambda self: None).test_nothing_is_left_behind()


def test_an_adapter_that_lets_errors_out_is_caught() -> None:
    def install(self, replacements):
        def make(original):
            def update(model, *args, **kwargs):
                self.job.fact(None)
                return original(model, *args, **kwargs)

            return update

        replacements.replace(toyframe.Model, "update", make)

    with pytest.raises(RuntimeError, match="planted"):
        broken(install=install).test_errors_do_not_reach_the_loop()


def test_an_adapter_that_misses_steps_is_caught() -> None:
    with pytest.raises(AssertionError):
        broken(_after=lambda *_: None).test_steps_are_one_sequence()


def test_an_adapter_that_promises_too_much_is_caught() -> None:
    declared = toyframe_adapter.ADAPTER.reports
    more = Reports(
        kinds=declared.kinds,
        scalars=declared.scalars,
        facts=declared.facts | {LossCall},
        modes=declared.modes,
    )
    with pytest.raises(AssertionError, match="never reported: LossCall"):
        suite(reports=more).test_reports_are_true()


def test_an_adapter_that_claims_to_honor_what_it_ignores_is_caught() -> None:
    with pytest.raises(AssertionError, match=r"steps \[0, 1, 2.*\] are applied"):
        broken(honors=EVERY).test_settings_have_an_effect_or_are_reported()


def test_an_adapter_that_does_not_declare_what_it_reports_is_caught() -> None:
    with pytest.raises(AssertionError, match="its reports lack kinds: gradient, weight"):
        suite(reports=Reports()).test_reports_are_true()
