from __future__ import annotations

import numpy as np
import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.data import StatesKept, TargetOrder
from mothtrap.core.facts.evaluations import BootstrappedTargets
from mothtrap.core.facts.targets import TrainedTarget
from mothtrap.core.findings import Finding, Severity
from mothtrap.rules.unshuffled_batches import UnshuffledBatches


def of_labels(labels: np.ndarray, size: int, sampler: str | None = "sequential", **more):
    """The record of consecutive batches of labels."""
    classes = int(labels.max()) + 1
    batches = [labels[i : i + size] for i in range(0, len(labels), size)]
    counts = tuple(tuple(np.bincount(b, minlength=classes).tolist()) for b in batches)
    return order(counts=counts, steps=tuple(range(len(batches))), sampler=sampler, **more)


def of_values(values: np.ndarray, size: int, sampler: str | None = None) -> TargetOrder:
    batches = [values[i : i + size] for i in range(0, len(values), size)]
    moments = tuple((float(len(b)), float(b.mean()), float(b.var())) for b in batches)
    return order(moments=moments, steps=tuple(range(len(batches))), sampler=sampler)


def order(**fields) -> TargetOrder:
    loader = "loader 1" if fields.get("sampler") else None
    options = {"step": 9, "site": "a", "loader": loader, "location": "train.py:9"}
    return TargetOrder(**{**options, **fields})


def check(*parts: TargetOrder) -> list[Finding]:
    return UnshuffledBatches().check(window(*parts))


RANDOM = np.random.default_rng(0)
LABELS = RANDOM.integers(0, 10, 1600)


@pytest.mark.parametrize("size", [1, 8, 32, 100])
def test_sorted_classes_fire_whatever_the_batch(size: int) -> None:
    [finding] = check(of_labels(np.sort(LABELS), size))
    assert (finding.severity, finding.step) == (Severity.ERROR, 0)
    assert finding.location == "train.py:9"
    assert finding.evidence["between_share"] > 0.5


def test_a_few_large_classes_fire_over_several_epochs() -> None:
    iris = np.tile(np.repeat([0, 1, 2], 40), 4)
    [finding] = check(of_labels(iris, 32))
    assert finding.severity is Severity.ERROR


def test_two_classes_in_blocks_fire_and_without_a_loader_it_is_a_warning() -> None:
    [finding] = check(of_labels(np.repeat([0, 1], 200), 16, sampler=None))
    assert finding.severity is Severity.WARNING
    [finding] = check(of_labels(np.repeat([0, 1], 200), 16, sampler="own"))
    assert finding.severity is Severity.WARNING


@pytest.mark.parametrize("size", [1, 2, 16, 64])
@pytest.mark.parametrize("seed", range(5))
def test_quiet_on_shuffled_classes(size: int, seed: int) -> None:
    labels = np.random.default_rng(seed).permutation(LABELS)
    assert check(of_labels(labels, size)) == []


def test_quiet_on_rare_classes() -> None:
    rare = (RANDOM.random(6400) < 0.01).astype(int)
    assert check(of_labels(rare, 32)) == []


def test_quiet_on_batches_of_a_few_classes_each() -> None:
    batches = [np.repeat(RANDOM.choice(10, 4, replace=False), 8) for _ in range(60)]
    assert check(of_labels(np.concatenate(batches), 32, sampler="own")) == []


def test_quiet_on_balanced_batches() -> None:
    assert check(of_labels(np.tile(np.arange(4), 200), 32)) == []


def test_quiet_on_real_and_fake_in_turn() -> None:
    assert check(of_labels(np.tile(np.repeat([0, 1], 32), 30), 32, sampler=None)) == []


def test_does_not_apply_to_one_class_and_waits_for_more_batches() -> None:
    with pytest.raises(NotApplicable, match="one class"):
        check(of_labels(np.ones(400, dtype=int), 32))
    with pytest.raises(NotEnoughData, match="needs 8 batches"):
        check(of_labels(np.sort(LABELS)[:96], 32))


def test_another_call_site_can_be_judged_where_one_cannot() -> None:
    fake = of_labels(np.ones(400, dtype=int), 32, site="fake")
    [finding] = check(fake, of_labels(np.sort(LABELS), 32))
    assert finding.severity is Severity.ERROR


def test_the_latest_record_of_a_call_site_counts() -> None:
    grown = of_labels(np.concatenate([np.zeros(320, int), RANDOM.permutation(LABELS)]), 32)
    assert check(of_labels(np.repeat([0, 1], 200), 16), grown) == []


@pytest.mark.parametrize("size", [4, 16, 64])
def test_sorted_numbers_are_a_warning(size: int) -> None:
    targets = np.sort(RANDOM.normal(size=1024))
    for values, word in ((targets, "rise"), (targets[::-1], "fall")):
        [finding] = check(of_values(values, size, "sequential"))
        assert finding.severity is Severity.WARNING
        assert word in finding.message


def test_quiet_on_shuffled_numbers_and_on_waves() -> None:
    assert check(of_values(RANDOM.normal(size=1024), 16)) == []
    assert check(of_values(np.sin(np.arange(2048) / 40), 16)) == []


@pytest.mark.parametrize("value", [1.0, np.nan])
def test_does_not_apply_to_targets_that_do_not_vary_or_are_no_numbers(value: float) -> None:
    with pytest.raises(NotApplicable):
        check(of_values(np.full(400, value), 16))


def test_every_threshold_moves_the_verdict() -> None:
    faulty = of_labels(np.sort(LABELS), 32)
    assert UnshuffledBatches(between_share=1.01).check(window(faulty)) == []
    assert UnshuffledBatches(chance=1e-300).check(window(of_labels(LABELS, 32))) == []
    with pytest.raises(NotEnoughData):
        UnshuffledBatches(blocks=51).check(window(faulty))
    with pytest.raises(NotEnoughData):
        UnshuffledBatches(block_targets=400).check(window(faulty))
    rising = of_values(np.sort(RANDOM.normal(size=1024)), 16)
    assert UnshuffledBatches(monotone_share=1.01).check(window(rising)) == []


BOOTSTRAPPED = BootstrappedTargets(step=9, module="target", steps=10)


def test_targets_that_the_model_itself_puts_out_may_drift() -> None:
    moments = tuple((32.0, 0.1 * batch, 0.01) for batch in range(64))
    order = TargetOrder(step=64, site="a.py:1", steps=tuple(range(64)), moments=moments)
    assert UnshuffledBatches().check(window(order))
    with pytest.raises(NotApplicable, match="outputs of the model itself"):
        UnshuffledBatches().check(window(order, BOOTSTRAPPED))


def test_actions_in_the_batches_of_a_loader_are_no_targets_where_the_model_makes_these() -> None:
    moving = BootstrappedTargets(step=9, module="q", steps=10)
    labels = np.sort(LABELS)
    with pytest.raises(NotApplicable, match="outputs of the model itself"):
        check(of_labels(labels, 32, loaded=True), moving)
    assert check(of_labels(labels, 32), moving)
    assert check(of_labels(labels, 32, loaded=True))


def test_targets_that_have_a_gradient_are_made_by_the_model() -> None:
    trained = TrainedTarget(step=12, looks=5, trained=5, idle=0, advantages=0)
    rising = of_values(np.sort(RANDOM.normal(size=1600)), 32)
    assert check(rising)
    with pytest.raises(NotApplicable, match="outputs of the model itself"):
        check(rising, trained)


def test_layers_that_keep_their_state_need_the_rows_in_order() -> None:
    rising = of_values(np.sort(RANDOM.normal(size=1600)), 32)
    kept = StatesKept(step=0, layers=("lstm",), shuffled=False, batches=50)
    with pytest.raises(NotApplicable, match="the order matters"):
        check(rising, kept)
    assert check(rising, StatesKept(step=0, layers=("lstm",), shuffled=True, batches=50))
