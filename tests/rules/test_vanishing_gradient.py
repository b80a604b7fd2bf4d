from __future__ import annotations

import dataclasses

import msgspec
import numpy as np
import pytest
from tests.rules.windows import loss, noise, window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.layers import DataTaken
from mothtrap.core.facts.optimizers import OptimizerFacts
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.tensors import TensorInfo
from mothtrap.core.window import Matrix, Series
from mothtrap.rules.vanishing_gradient import VanishingGradient

STEPS = 160
LEVEL = 2.3 + 0.02 * noise(STEPS)
FALLING = np.linspace(2.3, 0.4, STEPS)
LEVEL_OF_LOSS = loss(LEVEL)


BERT = [1e-5, 3e-5, 8e-5, 3e-4, 6e-5, 4e-4, 3e-5, 8e-5, 2e-4, 5e-4, 7e-5, 7e-4, 3e-3, 0.14]
"""Gradients of a small transformer: the last layer and the one before stand out."""


def layers(
    rms_by_layer: list[float] | np.ndarray,
    *,
    statistic: str = "l2",
    steps: int = STEPS,
    bias: float | None = 1.0,
    module_type: str = "Linear",
) -> Matrix:
    """Gradients of square layers of 16 units, front to back, the same at all steps.

    `bias` is the gradient of the biases relative to the weights', None = no biases.
    """
    tensors, values = [], []
    size = {"l2": 16.0, "abs_mean": 1.0}[statistic]
    for place, rms in enumerate(rms_by_layer):
        kept = {
            "kind": "gradient",
            "module": f"body.{place}",
            "location": f"model.py:{place + 1}",
            "module_type": module_type,
        }
        tensors.append(TensorInfo(name=f"body.{place}.weight", shape=(16, 16), **kept))
        values.append(rms * size)
        if bias is not None:
            tensors.append(TensorInfo(name=f"body.{place}.bias", shape=(16,), **kept))
            values.append(rms * bias * size**0.5)
    values_ST = np.tile(values, (steps, 1)) * np.exp(noise(steps, scale=0.1))[:, None]
    return Matrix(
        kind="gradient",
        statistic=statistic,
        tensors=tuple(tensors),
        steps_S=np.arange(steps),
        values_ST=values_ST,
        present_ST=np.ones(values_ST.shape, dtype=bool),
        skipped_S=np.zeros(steps, dtype=bool),
    )


def check(*parts: Series | Matrix, **thresholds: float) -> list[Finding]:
    return VanishingGradient(**thresholds).check(window(*parts))


def falling_by(factor: float, count: int = 8) -> np.ndarray:
    return factor ** np.arange(count - 1, -1, -1.0)


def test_fires_when_the_gradient_falls_with_every_layer_and_the_loss_stays() -> None:
    [finding] = check(layers(falling_by(0.1)), loss(LEVEL))
    assert (finding.severity, finding.step) == (Severity.ERROR, 0)
    assert finding.layers[0] == "body.0"
    assert "body.7" not in finding.layers
    assert finding.location == "model.py:1"
    assert float(finding.evidence["value"]) < 1e-5


def test_a_milder_fall_is_a_warning() -> None:
    [finding] = check(layers(falling_by(0.1, 5)), loss(LEVEL))
    assert finding.severity is Severity.WARNING


def test_a_mild_fall_is_a_warning_only_if_the_loss_stays_at_its_first_level() -> None:
    mild = falling_by(0.13, count=4)
    [finding] = check(layers(mild), loss(LEVEL))
    assert finding.severity is Severity.WARNING
    assert "(limit 0.004)" in finding.message
    assert check(layers(mild), loss(FALLING)) == []
    assert check(layers(mild), loss(LEVEL[:100])) == []
    assert check(layers(falling_by(0.5, count=4)), loss(LEVEL)) == []


def test_is_no_error_before_it_has_lasted() -> None:
    [finding] = check(layers(falling_by(0.1), steps=100), loss(LEVEL[:100]))
    assert finding.severity is Severity.WARNING


def test_sees_it_without_biases_and_without_a_loss() -> None:
    [finding] = check(layers(falling_by(0.1), bias=None))
    assert finding.layers[0] == "body.0"


def test_what_arrives_at_a_layer_shows_in_its_bias() -> None:
    # With a small initial scale activations shrink forward as errors do backward.
    weights, biases = layers(np.full(6, 1e-4), bias=None), layers(falling_by(0.1, 6), bias=1.0)
    both = np.where(np.arange(12) % 2 == 0, 1.6e-3, biases.values_ST)
    shown = Matrix(
        kind="gradient",
        statistic="l2",
        tensors=biases.tensors,
        steps_S=biases.steps_S,
        values_ST=both,
        present_ST=biases.present_ST,
        skipped_S=biases.skipped_S,
    )
    assert check(weights, loss(LEVEL)) == []
    assert check(shown, loss(LEVEL)) != []


@pytest.mark.parametrize(
    "shown",
    [
        layers(np.exp(noise(8, scale=1.0))),
        layers(falling_by(0.5)),
        layers(falling_by(0.01, 3)),
        layers(falling_by(0.1)[::-1]),
        layers([0.0] * 6 + [1e-3, 1.0]),
        layers(np.full(8, 1e-6)),
    ],
    ids=["even", "mild", "three layers", "upside down", "dead", "all small"],
)
def test_stays_quiet(shown: Matrix) -> None:
    assert check(shown, loss(LEVEL)) == []


def test_stays_quiet_while_the_loss_falls() -> None:
    assert check(layers(falling_by(0.1)), loss(FALLING)) == []


def test_stays_quiet_when_the_loss_has_reached_its_floor() -> None:
    fell = np.concatenate([np.linspace(2.3, 1e-4, 40), np.full(120, 1e-4)])
    assert check(layers(falling_by(0.1)), loss(fell)) == []


def test_a_bias_that_a_normalization_undoes_says_nothing() -> None:
    undone = layers(np.full(8, 1.0), bias=1e-9)
    undone.values_ST[:, -1] = 4.0  # the last layer has no normalization behind it
    assert check(undone, loss(LEVEL)) == []


def test_embeddings_are_no_layers() -> None:
    with pytest.raises(NotEnoughData, match="were captured in 50 steps"):
        check(layers(falling_by(0.1), module_type="Embedding"), loss(LEVEL))


def test_the_start_of_training_proves_nothing() -> None:
    with pytest.raises(NotEnoughData, match=r"needs 50 steps, saw 20"):
        check(layers(falling_by(0.1), steps=20), loss(LEVEL[:20]))


def test_tells_gradients_that_are_next_to_nothing_everywhere() -> None:
    means = layers(np.full(8, 1e-9), statistic="abs_mean")
    [finding] = check(means, loss(LEVEL))
    assert finding.severity is Severity.WARNING
    assert float(finding.evidence["value"]) == pytest.approx(1e-9, rel=0.2)
    assert check(means, loss(FALLING)) == []
    assert check(layers(np.full(8, 1e-5), statistic="abs_mean"), loss(LEVEL)) == []


def test_a_fall_that_lies_in_the_noise_is_none() -> None:
    means = layers(np.full(8, 1e-12), statistic="abs_mean")
    lucky = 1e-9 * (1 + 0.18 * noise(STEPS)) * np.linspace(1.2, 0.95, STEPS)
    assert check(means, loss(lucky)) != []


def test_names_a_layer_of_several_weights_once() -> None:
    means = layers(np.full(4, 1e-9), statistic="abs_mean")
    named = tuple(msgspec.structs.replace(t, module="rnn") for t in means.tensors)
    [finding] = check(dataclasses.replace(means, tensors=named), loss(LEVEL))
    assert finding.layers == ("rnn",)


def test_the_threshold_of_sagemaker_debugger_can_be_given() -> None:
    means = layers(np.full(8, 1e-5), statistic="abs_mean")
    assert check(means, loss(LEVEL), mean_limit=1e-4) != []
    assert check(means, loss(LEVEL), mean_limit=1e-6) == []


def test_a_step_whose_gradient_is_all_nan_has_no_part_in_it() -> None:
    matrix = layers(falling_by(0.1))
    matrix.values_ST[STEPS // 2, :4] = np.nan
    [finding] = check(matrix, loss(LEVEL))
    assert (finding.severity, finding.count) == (Severity.ERROR, STEPS - 1)


def taken(layer: str, cut_at: str | None) -> DataTaken:
    sizes = {"mean": 0.0, "std": 1.0, "smallest": -3.0, "largest": 3.0, "zeros": 0.0}
    return DataTaken(
        step=0,
        layer=layer,
        layer_type="Linear",
        shape=(32, 8),
        gain=1.0,
        rows=32,
        features=8,
        nonzero_rms=1.0,
        cut_at=cut_at,
        **sizes,
    )


CUT = np.array([1e-7, 1e-7, 2e-7, 1.0, 1.0, 1.1])


def test_a_detached_tensor_is_named_in_place_of_the_depth() -> None:
    [finding] = VanishingGradient().check(
        window(layers(CUT), loss(LEVEL), taken("body.3", "vae.py:18"))
    )
    assert "because body.3 receives a tensor that is detached" in finding.message
    assert finding.location == "vae.py:18"
    assert finding.fixes[0].startswith("Remove the `.detach()`")


@pytest.mark.parametrize(
    "seen", [taken("body.2", None), taken("body.0", "vae.py:18"), taken("body.5", "probe.py:9")]
)
def test_data_and_detached_heads_are_not_blamed(seen: DataTaken) -> None:
    [finding] = VanishingGradient().check(window(layers(CUT), loss(LEVEL), seen))
    assert "detached" not in finding.message
    assert "detach" not in finding.fixes[0]


def test_layers_that_take_the_data_begin_a_path_of_their_own() -> None:
    assert VanishingGradient().check(window(layers(CUT), loss(LEVEL)))
    assert VanishingGradient().check(window(layers(CUT), loss(LEVEL), taken("body.3", None))) == []


def test_gradients_below_an_epsilon_are_small_from_the_loss_on() -> None:
    means = layers(np.full(8, 1e-11), statistic="abs_mean")
    adam = OptimizerFacts(step=0, optimizer="Adam", kind="Adam", epsilon=1e-8, second_moments=True)
    [finding] = check(means, loss(LEVEL), adam)
    assert "Adam adds 1e-08 to the size of the gradient, so its steps are 0.1 %" in finding.message
    assert finding.fixes[0].startswith("Look for a factor")
    assert "detach" not in "".join(finding.fixes)


def in_two_parts(shown: Matrix) -> Matrix:
    """The same gradients in a model whose layers are `policy.*` and then `value.*`."""
    half = len(shown.tensors) // 2
    tensors = tuple(
        msgspec.structs.replace(
            tensor,
            name=tensor.name.replace("body", part),
            module=tensor.module.replace("body", part),
        )
        for part, tensors in (("policy", shown.tensors[:half]), ("value", shown.tensors[half:]))
        for tensor in tensors
    )
    return dataclasses.replace(shown, tensors=tensors)


def test_two_networks_side_by_side_are_no_depth() -> None:
    assert check(in_two_parts(layers([1e-5, 2e-5, 0.5, 1.0])), loss(LEVEL)) == []


def test_a_gradient_that_vanishes_through_two_parts_is_reported() -> None:
    assert check(in_two_parts(layers(falling_by(0.1))), loss(LEVEL))


def test_a_fall_at_the_last_two_of_many_layers_is_not_depth() -> None:
    assert VanishingGradient().check(window(layers(BERT), loss(LEVEL))) == []
    evenly = list(np.geomspace(BERT[0], BERT[-1], len(BERT)))
    [finding] = VanishingGradient().check(window(layers(evenly), loss(LEVEL)))
    assert "through 14 layers" in finding.message


def test_a_transformer_of_one_block_does_not_vanish_with_depth() -> None:
    one_block = [1.5e-5, 1.4e-4, 1e-5, 1.9e-4, 1.3e-3, 6e-2]  # the last two: pooler, classifier
    assert VanishingGradient().check(window(layers(one_block), LEVEL_OF_LOSS)) == []
    even = [10.0 ** (-n) for n in range(6, 0, -1)]
    assert VanishingGradient().check(window(layers(even), LEVEL_OF_LOSS)) != []


def test_queries_and_keys_are_not_the_first_layers() -> None:
    levels = [1e-5, 1e-5, 0.02, 0.03, 0.04, 0.05, 0.1, 0.14]
    made = layers(levels)
    names = ("query", "key", "value", "dense", "wide", "narrow", "pooler", "classifier")
    tensors = tuple(
        msgspec.structs.replace(
            one, module=one.module.replace(f".{place // 2}", f".{names[place // 2]}")
        )
        for place, one in enumerate(made.tensors)
    )
    attention = dataclasses.replace(made, tensors=tensors)
    assert VanishingGradient().check(window(attention, LEVEL_OF_LOSS)) == []
    [finding] = VanishingGradient().check(window(made, LEVEL_OF_LOSS))
    assert finding.severity is Severity.WARNING
