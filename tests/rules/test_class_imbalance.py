from __future__ import annotations

import msgspec
import numpy as np
import pytest
from tests.rules.classified import classified
from tests.rules.windows import loss, window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.losses import LossCall, TargetSample
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.class_imbalance import ClassImbalance

RARE = [[98, 0], [2, 0]]
EVEN = [[45, 5], [5, 45]]


def check(calls: list[LossCall], *more: object, **thresholds: float) -> list[Finding]:
    observed = window(loss(np.ones(100)), *calls, *more)
    return ClassImbalance(**thresholds).check(observed)


def test_a_class_with_many_times_the_labels_of_another_is_a_warning() -> None:
    [finding] = check(classified(RARE))
    assert (finding.severity, finding.evidence["value"]) == (Severity.WARNING, 49)
    assert finding.location == "train.py:9"


def test_a_loss_that_weighs_its_classes_makes_it_a_note() -> None:
    assert check(classified(RARE, weighted=True))[0].severity is Severity.INFO


def test_weights_that_do_not_favor_the_rare_class_make_no_difference() -> None:
    severities = {
        weights: check(classified(RARE, class_weights=weights))[0].severity
        for weights in ((1.0, 1.0), (1.0, 0.5), (1.0, 9.0), (1.0,))
    }
    assert severities == {
        (1.0, 1.0): Severity.WARNING,
        (1.0, 0.5): Severity.WARNING,
        (1.0, 9.0): Severity.INFO,
        (1.0,): Severity.INFO,  # the other weight is unknown
    }


def test_a_class_that_is_mostly_mispredicted_is_a_warning_once_the_rest_is_learned() -> None:
    [finding] = check(classified([[40, 0, 0], [0, 40, 0], [6, 13, 1]]))
    assert (finding.severity, finding.evidence["class"]) == (Severity.WARNING, 2)
    assert check(classified([[20, 20, 0], [20, 20, 0], [6, 13, 1]])) == []


def test_a_class_that_is_being_learned_is_none() -> None:
    begun = classified([[40, 0, 0], [0, 40, 0], [6, 13, 1]], looks=6)
    assert check([*begun, *classified([[40, 0, 0], [0, 40, 0], [5, 8, 7]], looks=12)[6:]]) == []


def test_what_was_seen_before_the_loss_fell_may_have_been_learned_since() -> None:
    calls = classified([[40, 0, 0], [0, 40, 0], [6, 13, 1]])
    fallen = np.where(np.arange(600) < 200, 1.0, 0.5)
    assert ClassImbalance().check(window(loss(fallen[:150]), *calls))
    assert ClassImbalance().check(window(loss(fallen), *calls)) == []


def test_only_the_last_looks_tell_what_is_mispredicted() -> None:
    begun, learned = classified([[50, 0], [45, 5]], looks=6), classified(EVEN, looks=16)[6:]
    assert check([*begun, *learned]) == []


# The rows of the rule's predecessor: 990 labels of one class and 10 of another fire at the
# step in which the samples are complete; its three parameters and their defaults.


def test_990_labels_to_10_fire_as_soon_as_there_are_enough() -> None:
    rare = classified([[99, 0], [1, 0]])
    with pytest.raises(NotEnoughData, match=r"needs 500 labels, saw 400"):
        check(rare[:4])
    assert len(check(rare[:5])) == 1


def test_threshold_imbalance_is_expressible() -> None:
    uneven = classified([[80, 0], [4, 16]])
    assert check(uneven) == []
    assert len(check(uneven, threshold_imbalance=3.9)) == 1


def test_threshold_misprediction_is_expressible() -> None:
    weak = classified([[90, 0], [6, 4]])
    assert check(weak) == []
    assert len(check(weak, threshold_misprediction=0.5)) == 1


def test_samples_is_expressible() -> None:
    assert len(check(classified(RARE, looks=1), samples=100)) == 1


@pytest.mark.parametrize(
    "healthy",
    [
        pytest.param(classified(EVEN), id="even"),
        pytest.param(classified([[98, 0], [0, 0]]), id="one class only"),
        pytest.param(classified([[80, 0], [20, 0]]), id="always the most frequent class"),
        pytest.param(classified([[80, 0, 0], [0, 20, 0], [0, 0, 0]]), id="a class not there"),
    ],
)
def test_stays_quiet(healthy: list[LossCall]) -> None:
    assert check(healthy) == []


def test_does_not_apply_to_tokens_pixels_several_labels_or_games() -> None:
    tokens = classified(np.eye(24, dtype=int) * np.arange(1, 25), model_inputs=("int64",))
    pixels = [
        msgspec.structs.replace(call, prediction_shape=(4, 2, 8, 8)) for call in classified(RARE)
    ]
    several = [
        msgspec.structs.replace(
            call, operation="binary_cross_entropy_with_logits", prediction_shape=(32, 20)
        )
        for call in classified(RARE)
    ]
    sample = TargetSample(dtype="int64", count=100, input_offsets=())
    tags = [msgspec.structs.replace(call, targets=sample) for call in classified(RARE)]
    rows = TargetSample(dtype="int64", count=100, by_position=True)
    positions = [msgspec.structs.replace(call, targets=rows) for call in classified(RARE)]
    for calls in (tokens, tags, positions, pixels, several):
        with pytest.raises(NotApplicable):
            check(calls)
    with pytest.raises(NotApplicable, match="compete"):
        check(classified(RARE), loss(np.ones(100), of="gan.py:9", optimizers=("G",)))


def test_an_imbalance_that_the_model_copes_with_is_a_property_of_the_task() -> None:
    [finding] = check(classified([[98, 0], [0, 2]]))
    assert finding.severity is Severity.INFO
    assert finding.message == "class 0 has 49x the labels of class 1 (980 to 20)"


def test_a_rare_class_that_is_never_predicted_is_named_with_its_share() -> None:
    [finding] = check(classified(RARE))
    assert finding.message.endswith("and all examples of class 1 are misclassified")
