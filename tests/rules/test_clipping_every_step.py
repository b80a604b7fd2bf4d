from __future__ import annotations

import numpy as np
import pytest
from tests.rules.windows import loss, noise, series, window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.optimizers import ClippedLate
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.clipping_every_step import ClippingEveryStep

N = 120


def check(
    ratio: np.ndarray | float,
    *late: ClippedLate,
    limit: float = 0.1,
    optimizer: str = "SGD",
) -> list[Finding]:
    norm = np.broadcast_to(ratio, N) * limit * np.exp(noise(N, scale=0.1))
    return ClippingEveryStep().check(
        window(
            series("gradient_norm", norm, of=""),
            series("clip_limit", np.full(N, limit), of=""),
            series("lr", np.full(N, 0.1), of=optimizer),
            loss(np.linspace(1.0, 0.5, N)),
            *late,
        )
    )


def test_fires_when_most_steps_are_cut_by_far() -> None:
    [finding] = check(40.0)
    assert (finding.severity, finding.step, finding.count) == (Severity.WARNING, 0, N)
    assert float(finding.evidence["value"]) == pytest.approx(40.0, rel=0.1)
    assert float(finding.evidence["clip_limit"]) == pytest.approx(0.1, rel=0.1)
    assert "clipping to 0.1" in finding.message


@pytest.mark.parametrize(("scale", "first"), [(65536.0, "Unscale before"), (1e8, "Raise the")])
def test_gradients_as_large_as_the_loss_scale_are_still_scaled(scale: float, first: str) -> None:
    shown = [
        series("gradient_norm", np.full(N, 9e4), of=""),
        series("clip_limit", np.ones(N), of=""),
        series("lr", np.full(N, 0.1), of="SGD"),
        series("loss_scale", np.full(N, scale), of=""),
    ]
    [finding] = ClippingEveryStep().check(window(*shown))
    assert finding.fixes[0].startswith(first)
    assert ("near the loss scale of 65,536" in finding.message) is (scale < 1e6)


def test_dates_where_it_began() -> None:
    [finding] = check(np.where(np.arange(N) < 20, 1.0, 40.0))
    assert finding.step == 20


@pytest.mark.parametrize("optimizer", ["AdamW", "RMSprop"])
def test_the_length_of_adams_gradients_does_not_count(optimizer: str) -> None:
    [finding] = check(40.0, optimizer=optimizer)
    assert finding.severity is Severity.INFO


def clipped_late(steps: int = 64, timely: int = 0, step: int = 64) -> ClippedLate:
    return ClippedLate(
        step=step,
        optimizer="SGD",
        since=0,
        late_steps=steps,
        timely_steps=timely,
        location="train.py:14",
    )


@pytest.mark.parametrize("ratio", [40.0, 2.0])
@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
def test_clipping_after_the_step_is_to_be_moved_not_raised(ratio: float, optimizer: str) -> None:
    [finding] = check(ratio, clipped_late(), optimizer=optimizer)
    assert (finding.severity, finding.step, finding.count) == (Severity.WARNING, 0, 64)
    assert finding.location == "train.py:14"
    assert "clipped to 0.1 after SGD has applied them" in finding.message
    assert [fix[:44] for fix in finding.fixes] == ["Clip between `backward()` and `step()`, with"]


def test_clipping_before_the_step_is_not_told_to_move() -> None:
    [finding] = check(40.0)
    assert not any("Clip between" in fix for fix in finding.fixes)


def test_late_clipping_stays_quiet_where_it_would_cut_nothing() -> None:
    assert check(0.1, clipped_late()) == []


def test_late_clipping_needs_some_steps() -> None:
    with pytest.raises(NotEnoughData, match="needs 16 steps of SGD with late clipping, saw 8"):
        check(40.0, clipped_late(8))


def test_clipping_that_is_not_always_late_is_judged_by_its_limit() -> None:
    [finding] = check(40.0, clipped_late(), clipped_late(64, 1, 70))
    assert "clipping to 0.1 shrinks" in finding.message
    assert check(2.0, clipped_late(), clipped_late(64, 1, 70)) == []


@pytest.mark.parametrize(
    "ratio",
    [0.5, 5.0, np.where(np.arange(N) % 2 == 0, 40.0, 1.0), np.where(np.arange(N) < 60, 40.0, 1.0)],
    ids=["below", "a little", "every other step", "at first"],
)
def test_stays_quiet(ratio: np.ndarray | float) -> None:
    assert check(ratio) == []


def test_without_clipping_it_does_not_apply() -> None:
    with pytest.raises(NotApplicable, match="not clipped by norm"):
        ClippingEveryStep().check(window(series("gradient_norm", np.ones(N))))
    short = series("gradient_norm", np.ones(9), of=""), series("clip_limit", np.ones(9), of="")
    with pytest.raises(NotEnoughData, match="saw 9"):
        ClippingEveryStep().check(window(*short))


def test_clipping_of_an_optimizer_itself() -> None:
    norm = 4.0 * np.exp(noise(N, scale=0.1))
    seen = (
        series("clip_limit", np.full(N, 0.1), of="sgd"),
        series("lr", np.full(N, 0.1), of="sgd"),
        loss(np.linspace(1.0, 0.5, N)),
    )
    own, other = (series("gradient_norm", norm, of=of) for of in ("sgd", "adam"))
    [finding] = ClippingEveryStep().check(window(own, *seen))
    assert finding.severity is Severity.WARNING
    assert not any("no effect" in fix for fix in finding.fixes)
    with pytest.raises(NotApplicable):
        ClippingEveryStep().check(window(other, *seen))
