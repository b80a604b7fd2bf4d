from __future__ import annotations

import pytest
import torch
from tests.adapters.torch.watched import DEFAULT, batch, classifier, sgd, train, watched
from torch import nn

from mothtrap.adapters.torch.hooks import onset
from mothtrap.adapters.torch.losses import loss_values
from mothtrap.adapters.torch.optimization.optimizers import OptimizerObserver
from mothtrap.core.facts.captures import Blind, ToolError


class Planted(Exception):
    """Raised in place of an internal error of mothtrap."""


def plant(*_: object, **__: object) -> None:
    raise Planted("on purpose")


@pytest.fixture
def expected() -> list[float]:
    torch.manual_seed(5)
    model = classifier()
    return train(model, sgd(model), steps=5)


def training() -> list[float]:
    torch.manual_seed(5)
    model = classifier()
    return train(model, sgd(model), steps=5)


@pytest.mark.parametrize(
    ("method", "part"),
    [
        ("before_step", "gradients"),
        ("after_step", "gradients"),
        ("backward_began", "gradients"),
        ("new_step", "gradients"),
    ],
)
def test_gradients_can_fail_alone(
    expected: list[float], monkeypatch: pytest.MonkeyPatch, method: str, part: str
) -> None:
    monkeypatch.setattr(OptimizerObserver, method, plant)
    with watched(may_fail=True) as seen:
        assert training() == expected
    assert seen.failed() == [part]
    assert seen.scalars("loss") == expected
    [error] = seen.observed(ToolError)
    assert (error.part, error.error) == (part, "Planted: on purpose")
    assert part in [blind.what for blind in seen.observed(Blind)]


def test_the_graph_of_the_loss_can_fail_alone(
    expected: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loss_values, "label_counts", plant)
    with watched(may_fail=True) as seen:
        assert training() == expected
    assert seen.failed() == ["loss graph"]
    assert seen.scalars("loss") == expected
    assert seen.scalars("gradient_state") == [0.0] * 5


def test_activations_can_fail_alone(expected: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    with watched(may_fail=True) as seen:
        monkeypatch.setattr(seen.tracer.forwards.calls, "left", plant)
        assert training() == expected
    assert seen.failed() == ["activations"]
    assert seen.scalars("loss") == expected


def test_the_search_for_nan_can_fail_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onset, "first_nonfinite", plant)
    model = nn.Linear(6, 1)
    with watched(may_fail=True) as seen:
        optimizer = sgd(model)
        (model(batch()[0]).mean() * float("nan")).backward()
        optimizer.step()
    assert seen.failed() == ["non-finite activations"]
    assert len(seen.steps()) == 1


@pytest.mark.parametrize(
    ("owner", "method"),
    [("losses", "began"), ("grouper", "feed"), ("forwards", "_returned"), ("optimizers", "add")],
)
def test_what_everything_hangs_on_fails_as_a_whole_and_training_goes_on(
    expected: list[float], monkeypatch: pytest.MonkeyPatch, owner: str, method: str
) -> None:
    with watched(may_fail=True) as seen:
        monkeypatch.setattr(getattr(seen.tracer, owner), method, plant)
        assert training() == expected
        assert not seen.tracer.job.live
    assert seen.failed() == ["observation of torch"]


def test_a_failure_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with watched(may_fail=True) as seen:
        monkeypatch.setattr(seen.tracer.optimizers, "before_step", plant)
        training()
    [line] = seen.said
    assert "training continues" in line


def test_our_own_time_is_counted_and_less_than_all_time() -> None:
    with watched() as seen:
        training()
    own, whole = seen.scalars("own_s"), seen.scalars("step_s")
    assert all(share > 0 for share in own[1:])
    assert sum(own[1:]) <= sum(whole)  # what closes a step may count towards the next one


def test_a_tracer_that_is_not_live_sees_nothing() -> None:
    with watched() as seen:
        seen.tracer.job.live = False
        training()
    assert seen.records == []


def test_the_default_streams_capture_gradients_at_every_step_and_rectifiers_at_first() -> None:
    with watched(capture=DEFAULT) as seen:
        training()
    assert list(seen.rows("gradient:0.weight", "l2")) == [0, 1, 2, 3, 4]
    assert list(seen.rows("activation:1", "inactive")) == [0, 1, 2, 3, 4]
    assert seen.names("activation") == ["1"]
