from __future__ import annotations

import numpy as np
import pytest
from tests.rules.test_vanishing_gradient import layers
from tests.rules.windows import gradients, loss, loss_call_of, noise, series, window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.fact import Fact
from mothtrap.core.facts.data import StatesKept
from mothtrap.core.facts.optimizers import ClippedLate
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.window import Matrix, Series
from mothtrap.rules.exploding_gradient import ExplodingGradient

N = 100
STEADY = np.exp(noise(N, scale=0.3))
FALLING = np.linspace(2.0, 1.0, N)


def norm(values: np.ndarray | list[float], **more: object) -> Series:
    return series("gradient_norm", values, **more)


def check(*parts: Series | Matrix | Fact, skipped: tuple[int, ...] = ()) -> list[Finding]:
    return ExplodingGradient().check(window(*parts, skipped=skipped))


def late_explosion() -> tuple[np.ndarray, np.ndarray]:
    growth = 3.0 ** np.arange(1, 11)
    return np.concatenate([STEADY[:90], growth]), np.concatenate([FALLING[:90], growth])


def test_fires_when_the_norm_leaves_its_history_and_the_loss_rises() -> None:
    norms, losses = late_explosion()
    [finding] = check(norm(norms), loss(losses))
    assert finding.severity is Severity.ERROR
    assert abs(finding.step - 90) <= 5
    assert finding.evidence["ratio"] >= 100


def test_says_the_step_of_its_number() -> None:
    norms, losses = late_explosion()
    [finding] = check(norm(norms), loss(losses))
    told = next(step for step, value in enumerate(norms) if value == finding.evidence["value"])
    assert f"gradient norm {norms[told]:.3g} at step {told} is" in finding.message
    assert told > finding.step


def test_a_norm_that_falls_first_explodes_from_its_lowest_on() -> None:
    norms = np.concatenate([np.geomspace(1.36, 0.03, 12), 0.03 * 3.0 ** np.arange(1, 9)])
    losses = np.concatenate([np.geomspace(2.3, 1.0, 12), 3.0 ** np.arange(1, 9)])
    [finding] = check(norm(norms), loss(losses))
    assert abs(finding.step - 12) <= 1


def test_names_the_layers_that_grew_most_and_their_line() -> None:
    norms, losses = late_explosion()
    still, wild = np.ones(N), norms
    rows = gradients("l2", {"head.weight": still.tolist(), "rnn.weight": wild.tolist()})
    [finding] = check(norm(norms), loss(losses), rows)
    assert finding.layers[0] == "rnn.weight"
    assert finding.location == "model.py:2"


@pytest.mark.parametrize("factor", [1.4, 3.0, 50.0])
def test_fires_on_growth_from_the_very_first_steps(factor: float) -> None:
    count = {1.4: 40, 3.0: 12, 50.0: 5}[factor]
    growth = factor ** np.arange(count)
    [finding] = check(norm(growth), loss(growth**2))
    assert finding.severity is Severity.ERROR
    assert finding.step <= 5


def test_fires_on_three_steps_when_growth_is_enormous() -> None:
    [finding] = check(norm([1.0, 2e3, 1e9]), loss([1.0, 1e6, 1e18]))
    assert (finding.severity, finding.step) == (Severity.ERROR, 1)


def test_fires_on_the_way_to_nan() -> None:
    [finding] = check(norm([1.0, 2e3, 1e9, np.inf]), loss([1.0, 1e6, np.inf, np.nan]))
    assert finding.severity is Severity.ERROR


def test_finds_an_explosion_after_which_all_gradients_died() -> None:
    norms = [1.0, 60.0, 4e3, 3e5, 0.01, *[0.01] * 40]
    losses = [1.0, 3e3, 1e7, 1e9, 1e9, *[1e9] * 40]
    [finding] = check(norm(norms), loss(losses))
    assert finding.step == 1


def test_sees_explosions_of_captured_gradients_where_no_norm_was_taken() -> None:
    norms, losses = late_explosion()
    [finding] = check(gradients("l2", {"w": norms.tolist()}), loss(losses))
    assert finding.severity is Severity.ERROR


def replaced(steps: slice, value: float) -> np.ndarray:
    values = STEADY.copy()
    values[steps] = value
    return values


@pytest.mark.parametrize(
    ("norms", "losses"),
    [
        pytest.param(STEADY, FALLING, id="steady"),
        pytest.param(replaced(slice(60, 61), 1e4), FALLING, id="a spike"),
        pytest.param(replaced(slice(60, 62), 1e4), FALLING, id="a spike of two steps"),
        pytest.param(np.linspace(1, 10, N), FALLING, id="early rise of 10x"),
        pytest.param(replaced(slice(60, N), 1e3), FALLING * 0.5, id="the loss falls all the while"),
        pytest.param(
            np.concatenate([STEADY[:20], np.full(60, 1e-9), np.full(20, 1e-3)]),
            FALLING,
            id="the gradient was near 0 before",
        ),
        pytest.param(1e-3 ** np.linspace(1, 0, N), FALLING, id="leaves a plateau, loss falls"),
        pytest.param(np.zeros(N), FALLING, id="0 all along"),
    ],
)
def test_stays_quiet(norms: np.ndarray, losses: np.ndarray) -> None:
    falling_at_60 = np.where(np.arange(N) < 60, losses, losses * 0.5)
    assert check(norm(norms), loss(falling_at_60)) == []


def test_a_single_bad_batch_that_ebbs_away_is_a_spike() -> None:
    ebb = 1e3 * 0.85 ** np.arange(30.0)
    norms = np.concatenate([STEADY[:60], ebb])
    losses = np.concatenate([FALLING[:60], [1e4], 1e3 * 0.7 ** np.arange(29.0)])
    assert check(norm(norms), loss(losses)) == []
    [finding] = check(norm(np.concatenate([STEADY[:60], ebb[::-1]])), loss(losses))
    assert finding.severity is Severity.ERROR


def test_a_gradient_out_of_proportion_to_the_first_loss_is_told_when_the_loss_breaks() -> None:
    norms = np.concatenate([[5e4], STEADY[:40]])
    thrown = np.concatenate([[2.0], np.full(40, 60.0)])
    [finding] = check(norm(norms), loss(thrown))
    assert (finding.severity, finding.step) == (Severity.ERROR, 0)
    assert "before the first step" in finding.message
    assert check(norm(norms), loss(np.concatenate([thrown[:-1], [-3.0]]))) == []
    assert check(norm(norms), loss(np.concatenate([[2.0], np.full(40, 1.0)]))) == []
    assert check(norm(norms / 100), loss(thrown)) == []


@pytest.mark.parametrize(("factor", "fires"), [(0.2, True), (0.5, False), (5.0, False)])
def test_warns_when_the_gradient_grows_through_depth(factor: float, fires: bool) -> None:
    rows = layers(factor ** np.arange(7.0), steps=N)
    found = check(rows, loss(FALLING))
    assert [(f.severity, f.step, f.layers) for f in found] == (
        [(Severity.WARNING, 0, ("body.0",))] if fires else []
    )


def test_does_not_advise_to_clip_what_is_clipped() -> None:
    norms, losses = late_explosion()
    [plain] = check(norm(norms), loss(losses))
    [clipped] = check(norm(norms), loss(losses), series("clip_limit", np.ones(N), of=""))
    assert "Clip" in plain.fixes[0]
    assert "Clip" not in clipped.fixes[0]


def test_what_is_clipped_after_its_step_is_not_clipped() -> None:
    norms, losses = late_explosion()
    late = ClippedLate(step=64, optimizer="Adam", since=0, late_steps=64)
    seen = norm(norms), loss(losses), series("clip_limit", np.ones(N), of="")
    assert "Clip" in check(*seen, late)[0].fixes[0]


def test_stays_quiet_on_steps_that_loss_scaling_skipped() -> None:
    norms = replaced(slice(60, 64), 1e6)
    assert check(norm(norms), loss(FALLING), skipped=(60, 61, 62, 63)) == []


def test_only_warns_when_the_loss_is_unknown_or_changes_sign() -> None:
    norms, losses = late_explosion()
    [unknown] = check(norm(norms))
    [signed] = check(norm(norms), loss(np.where(np.arange(N) % 2, losses, -losses)))
    assert unknown.severity is signed.severity is Severity.WARNING


def test_only_warns_in_a_game() -> None:
    norms, losses = late_explosion()
    other = loss(FALLING, of="gan.py:5", optimizers=("D",))
    [finding] = check(norm(norms), loss(losses), other)
    assert finding.severity is Severity.WARNING


def test_cannot_judge_without_norms() -> None:
    with pytest.raises(NotEnoughData, match="no gradient norm"):
        ExplodingGradient().check(window(steps=5))
    with pytest.raises(NotEnoughData, match="3 steps"):
        check(norm([1.0, 2.0]))


def test_a_gradient_that_is_huge_before_the_first_step_comes_before_the_nan() -> None:
    broken = [3e23, 8e30, *[np.nan] * 20]
    [finding] = check(norm([2e24, 5e31]), loss(broken))
    assert (finding.severity, finding.step) == (Severity.ERROR, 0)
    assert "2e+22x the largest initial norm of healthy networks" in finding.message


@pytest.mark.parametrize(
    ("norms", "losses"),
    [([2e24, 5e31], [3e23, 8e22, 1e21]), ([80.0, 90.0], [3.0, 2.0, np.nan])],
    ids=["a loss in small units that falls", "an ordinary gradient before a NaN"],
)
def test_few_steps_alone_prove_nothing(norms: list[float], losses: list[float]) -> None:
    with pytest.raises(NotEnoughData, match="fewer than 3 steps"):
        check(norm(norms), loss(losses))


def test_a_small_gradient_explodes_nothing() -> None:
    norms, losses = late_explosion()
    small = 0.005 / norms.max()
    assert check(norm(norms * small), loss(losses)) == []


def test_an_explosion_of_two_steps_comes_before_the_nan() -> None:
    [finding] = check(norm([40.0, 3e20]), loss([0.16, 2e17, *[np.nan] * 20]))
    assert (finding.severity, finding.step) == (Severity.ERROR, 1)
    assert "7.5e+18x the norm of the previous step" in finding.message


def test_a_loss_that_begins_at_about_0_is_no_scale_for_the_gradient() -> None:
    falling = np.geomspace(5e-3, 1e-5, 50)
    norms = [2e-8, *np.sqrt(falling)]
    found = check(norm(norms), loss([1e-15, *falling]))
    assert Severity.ERROR not in [finding.severity for finding in found]


@pytest.mark.parametrize(("rows", "fires"), [(1, False), (4, False), (32, True)])
def test_a_few_hard_rows_are_no_explosion(rows: int, fires: bool) -> None:
    norms, losses = np.full(N, 0.01), np.full(N, 0.02)
    norms[60:63], losses[60:64] = (2.0, 4.0, 8.0), 3.0
    assert bool(check(norm(norms), loss(losses), loss_call_of(rows))) is fires


def test_batches_of_one_row_explode_when_the_norm_stays_high() -> None:
    growth = 2.0 ** np.arange(1, 31)
    norms = np.concatenate([STEADY[:70], growth])
    losses = np.concatenate([FALLING[:70], growth])
    [finding] = check(norm(norms), loss(losses), loss_call_of(1))
    assert finding.severity is Severity.ERROR


def test_a_gradient_as_at_the_start_is_no_explosion_while_the_loss_stands() -> None:
    # A triplet loss: most batches have no triplet within the margin.
    norms = np.concatenate([[5.0, 3.0, 1.0], np.full(60, 0.01), np.full(10, 4.0)])
    losses = loss(np.full(len(norms), 0.1))
    assert check(norm(norms), losses) == []
    norms[-10:] = 6.0
    assert [one.severity for one in check(norm(norms), losses)] == [Severity.WARNING]


def test_another_training_run_with_new_weights_is_no_explosion() -> None:
    run = [4.0, 3.0, 1.0, *[1e-4] * 60]
    norms = [*run, *(1.2 * one for one in run[:20])]
    of_run = [2.3, 2.0, 0.5, *[1e-6] * 60]
    losses = [*of_run, *of_run[:20]]
    assert check(norm(norms), loss(losses)) == []
    assert check(norm([*run, *[40.0] * 10]), loss([*of_run, *[2.0] * 10]))


def test_a_growth_after_which_training_recovers_is_a_spike() -> None:
    norms = [3.0, *[10.0] * 20, *[6e-3] * 30, 0.05, 0.2, 6.0, 40.0]
    losses = [2.5, *[1.0] * 20, *[6e-4] * 30, 1e-3, 4e-3, 0.3, 12.0]
    assert not check(norm(norms), loss(losses)), "it may be a spike"
    assert not check(norm([*norms, 8.0, 1.2, 0.08]), loss([*losses, 1.4, 0.04, 5e-3]))
    assert check(norm([*norms, 50.0, 60.0, 90.0]), loss([*losses, 14.0, 20.0, 30.0]))


def test_data_that_do_not_fit_what_was_learned_are_no_explosion() -> None:
    norms = [1.67, 1.57, 1.4, *[2.4e-3] * 60, 0.06, 1.55, 1.24, 0.8, 0.6]
    losses = [0.63, 0.55, 0.44, *[3e-4] * 60, 0.016, 0.52, 0.32, 0.13, 0.1]
    assert not check(norm(norms), loss(losses))
    higher = np.array(losses)
    higher[-4:] *= 10
    assert check(norm(norms), loss(higher))


def test_layers_that_keep_their_state_begin_each_pass_anew() -> None:
    norms, losses = late_explosion()
    kept = StatesKept(step=0, layers=("lstm",), shuffled=False, batches=50)
    [finding] = check(norm(norms), loss(losses), kept)
    assert finding.severity is Severity.INFO
