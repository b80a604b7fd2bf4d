from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
import torch
from tests.adapters.torch.watched import classifier
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from mothtrap.adapters.torch.job.graph import loss_terms
from mothtrap.adapters.torch.losses.loss_targets import Forward, sample, without_labels
from mothtrap.core.facts.losses import TargetSample

Tensor = torch.Tensor
NOTHING = Forward((), None)


def looked(
    loss: Tensor, forward: Forward = NOTHING, *, checkpointed: bool = False, columns: bool = False
) -> TargetSample | None:
    [term] = loss_terms(loss.grad_fn)
    return sample(term, forward, checkpointed=checkpointed, columns=columns)


def leaf(*shape: int) -> Tensor:
    return torch.randn(*shape, requires_grad=True)


LABELS = torch.tensor([0, 2, 1, -100])


def test_labels_have_a_range_without_the_ignored_ones() -> None:
    found = looked(functional.cross_entropy(leaf(4, 3), LABELS))
    assert found is not None
    assert (found.dtype, found.count, found.least, found.greatest) == ("int64", 4, 0, 2)
    assert (found.ignored_share, found.outside_share, found.weighted) == (0.25, None, False)


def test_nothing_but_ignored_labels_have_no_range() -> None:
    found = looked(functional.cross_entropy(leaf(4, 3), torch.full((4,), 7), ignore_index=7))
    assert found is not None
    assert (found.ignored_share, found.least) == (1.0, None)


def test_weights_of_classes_are_seen() -> None:
    soft = torch.rand(4, 3)
    for loss in (
        functional.cross_entropy(leaf(4, 3), LABELS, weight=torch.tensor([1.0, 2.0, 1.0])),
        functional.binary_cross_entropy_with_logits(leaf(4, 3), soft, pos_weight=torch.ones(3)),
    ):
        assert looked(loss).weighted
    equal = functional.cross_entropy(leaf(4, 3), LABELS, weight=torch.full((3,), 2.0))
    assert not looked(equal).weighted


def test_targets_that_are_not_finite_have_no_part_in_the_range() -> None:
    found = looked(functional.mse_loss(leaf(3), torch.tensor([1.0, float("nan"), 3.0])))
    assert (found.least, found.greatest) == (1.0, 3.0)


HALF = torch.tensor([[-2.0], [-1.0], [1.0], [2.0]])


@pytest.mark.parametrize(
    ("last", "share"),
    [
        (torch.relu, 0.5),
        (torch.sigmoid, 0.75),
        (torch.tanh, 0.5),
        (functional.softplus, 0.5),
        (lambda x: torch.relu(x).view(-1, 1), 0.5),
        (lambda x: x.sigmoid().bfloat16(), 0.75),
        (lambda x: x, None),
        (lambda x: torch.tanh(x) * 2, None),
        (functional.gelu, None),
    ],
)
def test_targets_outside_of_what_the_last_operation_gives(
    last: Callable[[Tensor], Tensor], share: float | None
) -> None:
    prediction = last(nn.Linear(3, 1)(torch.randn(4, 3)))
    assert looked(functional.mse_loss(prediction, HALF.to(prediction.dtype))).outside_share == share


def test_what_is_on_the_edge_or_rounded_is_inside() -> None:
    target = torch.tensor([0.0, 1.0, 1.0005, -0.0005])
    assert looked(functional.mse_loss(leaf(4).sigmoid(), target)).outside_share == 0.0


@pytest.mark.parametrize(
    "by_hand",
    [
        lambda p, y: ((p - y) ** 2).mean(),
        lambda p, y: (y - p).pow(2).sum(),
        lambda p, y: (p - y).abs().mean(),
        lambda p, y: ((p - y) * (p - y)).mean(),
        lambda p, y: ((p.squeeze(-1) - y.squeeze(-1)) ** 2).mean(),
        functional.l1_loss,
    ],
)
def test_the_target_of_a_difference_by_hand_is_recovered(
    by_hand: Callable[[Tensor, Tensor], Tensor],
) -> None:
    prediction = torch.relu(nn.Linear(3, 1)(torch.randn(4, 3)))
    found = looked(by_hand(prediction, HALF), Forward((), prediction.detach()))
    assert (found.least, found.greatest) == (pytest.approx(-2.0), pytest.approx(2.0))
    assert found.outside_share == 0.5


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(-torch.ones(4, 1), id="no output of a rectifier"),
        pytest.param(torch.ones(5, 1), id="of a different size"),
        pytest.param(None, id="gone"),
    ],
)
def test_what_cannot_be_the_prediction_recovers_nothing(other: Tensor | None) -> None:
    prediction = torch.relu(nn.Linear(3, 1)(torch.randn(4, 3)))
    assert looked(((prediction - HALF) ** 2).mean(), Forward((), other)) is None


def test_of_several_terms_or_forwards_nothing_is_recovered() -> None:
    prediction = torch.relu(nn.Linear(3, 1)(torch.randn(4, 3)))
    loss = ((prediction - HALF) ** 2).mean()
    assert looked(loss, Forward((), prediction.detach(), calls=2)) is None
    [term] = loss_terms(loss.grad_fn)
    forward = Forward((), prediction.detach())
    assert sample(term, forward, checkpointed=False, columns=False, alone=False) is None


def test_a_prediction_in_another_order_recovers_nothing() -> None:
    prediction = torch.relu(nn.Linear(3, 4)(torch.randn(4, 3)))
    target = torch.randn(4, 4)
    found = looked(((prediction.t() - target) ** 2).mean(), Forward((), prediction.detach()))
    assert found is None


TOKENS = torch.arange(40).reshape(4, 10) % 7


def language_loss(target: Tensor, *, flat: bool = True) -> Tensor:
    logits = leaf(*target.shape, 9)
    if flat:
        return functional.cross_entropy(logits.flatten(0, -2), target.flatten())
    return functional.cross_entropy(logits.transpose(1, 2), target)


@pytest.mark.parametrize("flat", [True, False])
@pytest.mark.parametrize(
    ("target", "offsets"),
    [
        pytest.param(TOKENS, (0,), id="not shifted"),
        pytest.param(torch.cat([TOKENS[:, 1:], TOKENS[:, :1]], 1), (1,), id="next token"),
        pytest.param(TOKENS[:, 1:], (1,), id="next token, one shorter"),
        pytest.param(TOKENS[:, :-1], (0,), id="not shifted, one shorter"),
        pytest.param(TOKENS.flip(1), (), id="something else"),
        pytest.param(torch.full((4, 10), 3), (), id="one token"),
        pytest.param(torch.where(TOKENS == 5, -100, TOKENS), (0,), id="some ignored"),
        pytest.param(torch.where(TOKENS == 5, TOKENS, -100), (), id="too few count"),
    ],
)
def test_labels_are_compared_with_the_tokens_of_the_input(
    target: Tensor, offsets: tuple[int, ...], flat: bool
) -> None:
    found = looked(language_loss(target, flat=flat), Forward((TOKENS,), None))
    assert found.input_offsets == offsets


def test_sequences_may_lie_along_the_first_axis() -> None:
    tokens = TOKENS.t().contiguous()
    shifted = looked(language_loss(tokens[1:]), Forward((tokens,), None))
    assert shifted.input_offsets == (1,)


def test_masked_tokens_differ_from_their_labels() -> None:
    masked = torch.where(TOKENS % 3 == 0, 8, TOKENS)
    target = torch.where(TOKENS % 3 == 0, TOKENS, -100)
    assert looked(language_loss(target), Forward((masked,), None)).input_offsets == ()


def test_each_of_several_inputs_may_have_its_offset() -> None:
    shifted = torch.cat([torch.full((4, 1), 8), TOKENS[:, :-1]], 1)
    found = looked(language_loss(TOKENS), Forward((TOKENS, shifted), None))
    assert found.input_offsets == (0, 1)


@pytest.mark.parametrize("time_first", [True, False])
def test_tokens_may_be_one_hot(time_first: bool) -> None:
    tokens = TOKENS.t().contiguous() if time_first else TOKENS
    given = functional.one_hot(tokens, 9).float()
    assert looked(language_loss(tokens), Forward((given,), None)).input_offsets == (0,)
    assert looked(language_loss(tokens), Forward((given / 2,), None)).input_offsets is None


def test_a_single_sequence_is_a_row() -> None:
    row = TOKENS.flatten()
    assert looked(language_loss(row[1:]), Forward((row[:-1],), None)).input_offsets == (1,)
    assert looked(language_loss(row), Forward((row,), None)).input_offsets == (0,)


@pytest.mark.parametrize("given", [torch.randn(4, 10), torch.zeros(4, 1, dtype=torch.long)])
def test_other_inputs_are_no_sequences(given: Tensor) -> None:
    found = looked(language_loss(TOKENS), Forward((given,), None))
    assert found.input_offsets is None


def test_positions_that_were_laid_out_as_rows_are_told() -> None:
    scores = nn.Linear(6, 3)(torch.randn(4, 5, 6))
    target = torch.zeros(20, dtype=torch.long)
    flat = functional.cross_entropy(scores.flatten(0, 1), target)
    assert looked(flat, Forward((), scores.detach())).by_position
    assert not looked(flat, Forward((), scores.detach().flatten(0, 1))).by_position
    assert not looked(flat, Forward((), torch.randn(4, 5, 7))).by_position


def test_labels_are_counted_against_predictions() -> None:
    logits = torch.eye(3)[[0, 1, 1, 2]].requires_grad_()
    found = looked(functional.cross_entropy(logits, torch.tensor([0, 1, 2, 2])))
    assert found.confusion == (1, 0, 0, 0, 1, 0, 0, 1, 1)
    assert found.surest == (1, 0)


@pytest.mark.parametrize("with_logits", [True, False])
def test_binary_predictions_are_counted(with_logits: bool) -> None:
    logits, target = torch.tensor([-1.0, 2.0, 3.0]).requires_grad_(), torch.tensor([0.0, 0, 1])
    if with_logits:
        found = looked(functional.binary_cross_entropy_with_logits(logits, target))
    else:
        found = looked(functional.binary_cross_entropy(logits.sigmoid(), target))
    assert found.confusion == (1, 1, 0, 1)
    assert found.surest is None  # three rows have no quarter
    four = torch.tensor([0.2, 0.9, 0.6, 0.6]).requires_grad_()
    found = looked(functional.binary_cross_entropy(four, torch.tensor([0.0, 0, 1, 1])))
    assert found.surest == (1, 1)


def test_many_classes_and_tokens_have_no_confusion() -> None:
    many = looked(functional.cross_entropy(leaf(4, 21), LABELS.abs() % 21))
    assert many.confusion is None
    assert looked(language_loss(TOKENS), Forward((TOKENS,), None)).confusion is None


def test_scores_are_told_from_log_probabilities() -> None:
    scores = looked(functional.nll_loss(nn.Linear(6, 3)(torch.randn(4, 6)), LABELS))
    by_hand = looked(functional.nll_loss(leaf(4, 3).softmax(1).log(), LABELS))
    assert (scores.normalized, by_hand.normalized) == (False, True)
    assert looked(functional.cross_entropy(leaf(4, 3), LABELS)).normalized is None


def test_columns_are_looked_for_where_asked() -> None:
    x, y = torch.randn(32, 5), torch.randn(32, 1)
    x[:, 2] = 3 * y[:, 0]
    loss = functional.mse_loss(nn.Linear(5, 1)(x), y)
    assert looked(loss, Forward((x,), None)).telling_columns is None
    found = looked(loss, Forward((x,), None), columns=True)
    assert (found.telling_columns, found.columns) == ((2,), 5)


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_a_checkpointed_loss_is_not_run_again(use_reentrant: bool) -> None:
    model, runs = classifier(), 0

    def segment(x: Tensor) -> Tensor:
        nonlocal runs
        runs += 1
        return functional.cross_entropy(model(x), LABELS)

    loss = checkpoint(segment, leaf(4, 6), use_reentrant=use_reentrant)
    for term in loss_terms(loss.grad_fn):
        assert sample(term, NOTHING, checkpointed=True, columns=True) is None
    assert runs == 1


def test_soft_targets_by_hand_are_out_of_reach() -> None:
    soft = torch.full((4, 3), 1 / 3)
    assert looked(functional.cross_entropy(leaf(4, 3), soft)) is None


NEXT = torch.cat([TOKENS[:, 1:], TOKENS[:, :1]], 1)
MASKED = torch.where(TOKENS % 3 == 0, 8, TOKENS)
TAGS = TOKENS.flip(1) % 4


@pytest.mark.parametrize(
    ("target", "inputs", "offsets"),
    [
        pytest.param(TAGS, (TOKENS, TAGS), (), id="tags of tokens"),
        pytest.param(TOKENS, (MASKED, TOKENS), (), id="masked tokens"),
        pytest.param(NEXT, (TOKENS, NEXT), (1,), id="next token"),
        pytest.param(TOKENS[:, 1:], (TOKENS, TOKENS.clone()), (1,), id="the model shifts"),
        pytest.param(TOKENS, (TOKENS, TOKENS), (0,), id="not shifted"),
        pytest.param(TOKENS, (TOKENS,), (0,), id="the only input"),
    ],
)
def test_the_argument_that_holds_the_targets_is_no_input_of_its_own(
    target: Tensor, inputs: tuple[Tensor, ...], offsets: tuple[int, ...]
) -> None:
    found = looked(language_loss(target), Forward(inputs, None, has_loss=True))
    assert found.input_offsets == offsets


def test_labels_of_rows_are_no_input_of_a_model_that_computes_its_loss() -> None:
    labels, scores = torch.arange(8) % 3, leaf(8, 3)
    forward = Forward((torch.randn(8, 5), labels.clone()), None, has_loss=True)
    assert looked(functional.cross_entropy(scores, labels), forward).input_offsets is None
    rows, targets = torch.randn(8, 5), torch.randn(8, 1)
    given = Forward((rows, targets.clone()), None, has_loss=True)
    assert without_labels(given, targets, None).inputs == (rows,)
    alone = Forward((targets,), None, has_loss=True)
    assert without_labels(alone, targets, None) is alone


def test_the_order_of_arguments_does_not_matter() -> None:
    found = looked(language_loss(NEXT), Forward((NEXT, TOKENS), None, has_loss=True))
    assert found.input_offsets == (1,)


def smoothed(labels: Tensor, classes: int, *, padding: int | None = None) -> Tensor:
    """Return smoothed rows, as in the annotated Transformer."""
    rows = torch.full((len(labels), classes), 0.1 / (classes - 2))
    rows.scatter_(1, labels[:, None], 0.9)
    rows[:, 0] = 0
    if padding is not None:
        rows[labels == padding] = 0
    return rows


def test_smoothed_one_hot_targets_have_labels() -> None:
    tokens = torch.randint(1, 9, (6, 8))
    tokens[:2, 6:] = 0
    for scores in (leaf(48, 9), leaf(6, 8, 9)):
        logs = scores.log_softmax(-1).reshape(48, 9)
        soft = smoothed(tokens.reshape(-1), 9, padding=0)
        found = looked(functional.kl_div(logs, soft, reduction="sum"), Forward((tokens,), None))
        assert found is not None
        assert (found.count, found.least, found.greatest) == (48, 1, 8)
        assert found.input_offsets == (0,)
        assert found.ignored_share == pytest.approx(4 / 48)


def test_other_soft_targets_have_no_labels() -> None:
    for soft in (torch.randn(6, 9).mul(9).softmax(-1), torch.full((6, 9), 1 / 9)):
        assert looked(functional.kl_div(leaf(6, 9).log_softmax(-1), soft, reduction="sum")) is None


def test_sums_of_the_rows_of_one_hot_labels() -> None:
    one_hot = torch.eye(4)[torch.tensor([0, 3, 1])]
    several = one_hot.clone()
    several[0] = 1
    for target, sums in (
        (one_hot, (1.0, 1.0)),
        (several, (1.0, 4.0)),
        (0.5 * one_hot, None),
        (one_hot[:, :2], None),
    ):
        scores = leaf(*target.shape)
        found = looked(functional.binary_cross_entropy_with_logits(scores, target))
        assert found is not None
        assert found.row_sums == sums


def test_labels_that_the_model_sees() -> None:
    words = torch.arange(64).reshape(4, 16) % 9
    masked = torch.arange(64).reshape(4, 16) % 8 == 0
    forward = Forward((torch.where(masked, 30, words),), None)
    found = looked(functional.cross_entropy(leaf(64, 40), words.flatten()), forward)
    assert found is not None
    assert (found.shown, found.input_offsets) == ((64, 56, 8), ())
    decoder = dataclasses.replace(forward, decodes=True)
    found = looked(functional.cross_entropy(leaf(64, 40), words.flatten()), decoder)
    assert found is not None
    assert found.shown is None
