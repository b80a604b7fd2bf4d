"""Checks, with real graphs, the private names on which reading a loss graph depends."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
import torch
from tests.adapters.torch.watched import batch, classifier, sgd, watched
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from mothtrap.adapters.torch.job.graph import (
    LossTerm,
    loss_terms,
    operation,
    output_shape,
)
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.steps import Mode
from mothtrap.rules.loss_broadcast import _is_broadcast

Tensor = torch.Tensor


@pytest.fixture
def logits() -> Tensor:
    return nn.Linear(6, 3)(torch.randn(4, 6))


@pytest.fixture
def prediction() -> Tensor:
    """Return a regression output with one column, as a last linear layer returns it."""
    return nn.Linear(6, 1)(torch.randn(8, 6))


LABELS = torch.tensor([0, 2, 1, 0])
SOFT = torch.full((4, 3), 1 / 3)


def only(loss: Tensor) -> LossTerm:
    [term] = loss_terms(loss.grad_fn)
    return term


def test_node_names_and_private_attributes_are_what_the_reader_expects(logits: Tensor) -> None:
    node = functional.log_softmax(logits, dim=-1).grad_fn
    assert node.name() == "LogSoftmaxBackward0"
    assert operation(node) == "log_softmax"
    assert output_shape(node) == (4, 3)
    assert node._saved_dim in (1, 2**64 - 1)
    assert functional.log_softmax(logits, dim=0).grad_fn._saved_dim == 0


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda x: functional.mse_loss(x, x.detach()), "mse_loss"),
        (lambda x: functional.l1_loss(x, x.detach(), reduction="none"), "abs"),
        (lambda x: functional.smooth_l1_loss(x, x.detach()), "smooth_l1_loss"),
        (lambda x: functional.huber_loss(x, x.detach()), "huber_loss"),
        (lambda x: functional.nll_loss(x, LABELS), "nll_loss"),
        (lambda x: x @ torch.ones(3, 2), "linear"),
    ],
)
def test_operations_have_framework_free_names(
    logits: Tensor, make: Callable[[Tensor], Tensor], name: str
) -> None:
    assert operation(make(logits).grad_fn) == name


@pytest.mark.parametrize(
    "loss",
    [
        lambda x: functional.cross_entropy(x, LABELS),
        lambda x: functional.cross_entropy(x, LABELS, label_smoothing=0.1),
        lambda x: functional.cross_entropy(x, LABELS, weight=torch.ones(3)),
        lambda x: functional.cross_entropy(x, LABELS, reduction="none").mean(),
        lambda x: functional.cross_entropy(x, SOFT),
        lambda x: nn.CrossEntropyLoss()(x, LABELS) / 4,
        lambda x: functional.nll_loss(functional.log_softmax(x, dim=1), LABELS),
        lambda x: -(functional.log_softmax(x, dim=-1) * SOFT).sum(dim=1).mean(),
        lambda x: -functional.log_softmax(x, dim=-1).gather(1, LABELS[:, None]).mean(),
        lambda x: -functional.log_softmax(x, dim=-1)[torch.arange(4), LABELS].mean(),
    ],
)
def test_a_cross_entropy_is_one_however_it_is_written(
    logits: Tensor, loss: Callable[[Tensor], Tensor]
) -> None:
    term = only(loss(logits))
    assert (term.operation, term.chain) == ("cross_entropy", ("linear",))
    assert (term.prediction_shape, term.classes) == ((4, 3), 3)


def test_the_class_axis_of_images_and_sequences_is_the_second() -> None:
    images = nn.Conv2d(1, 5, 3, padding=1)(torch.randn(2, 1, 4, 4))
    term = only(functional.cross_entropy(images, torch.zeros(2, 4, 4, dtype=torch.long)))
    assert (term.prediction_shape, term.classes) == ((2, 5, 4, 4), 5)
    tokens = nn.Linear(6, 7)(torch.randn(2, 3, 6))
    term = only(
        functional.cross_entropy(tokens.transpose(1, 2), torch.zeros(2, 3, dtype=torch.long))
    )
    assert (term.classes, term.chain[-1]) == (7, "linear")


@pytest.mark.parametrize(
    "between",
    [
        lambda p: p,
        lambda p: p.view(-1, 3),
        lambda p: p.t().contiguous().t(),
        lambda p: p.transpose(0, 1).transpose(0, 1),
        lambda p: p[:, :],
        lambda p: p.double(),
    ],
)
def test_softmax_is_seen_before_a_cross_entropy(
    logits: Tensor, between: Callable[[Tensor], Tensor]
) -> None:
    term = only(functional.cross_entropy(between(logits.softmax(dim=1)), LABELS))
    assert (term.operation, term.chain[:2]) == ("cross_entropy", ("softmax", "linear"))


@pytest.mark.parametrize(
    ("loss", "sizes"),
    [
        (lambda x: functional.cross_entropy(x, LABELS), (3,)),
        (lambda x: functional.cross_entropy(x.softmax(dim=0), LABELS), (3, 4)),
        (lambda x: functional.nll_loss(functional.log_softmax(x, dim=0), LABELS), (4,)),
        (lambda x: functional.nll_loss(x.softmax(dim=0).log(), LABELS), (4,)),
        (lambda x: functional.nll_loss((x.softmax(dim=-1) + 1e-8).log(), LABELS), (3,)),
        (lambda x: functional.mse_loss(x.softmax(dim=0), SOFT), (4,)),
        (lambda x: functional.cross_entropy(x.softmax(dim=0)[:, :2], LABELS % 2), (2,)),
        (lambda x: functional.mse_loss(x, SOFT), ()),
    ],
)
def test_axes_of_softmaxes_under_a_loss_have_sizes(
    logits: Tensor, loss: Callable[[Tensor], Tensor], sizes: tuple[int, ...]
) -> None:
    assert only(loss(logits)).softmax_sizes == sizes


def test_classes_are_those_of_the_labels_where_a_softmax_runs_over_another_axis(
    logits: Tensor,
) -> None:
    term = only(functional.nll_loss(functional.log_softmax(logits, dim=0), LABELS))
    assert (term.classes, term.prediction_shape) == (3, (4, 3))
    chosen = torch.tensor([0, 2])
    term = only(functional.nll_loss(functional.log_softmax(logits, 0)[chosen], LABELS[chosen]))
    assert (term.classes, term.softmax_sizes) == (3, (4,))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_reductions_have_their_names(logits: Tensor, reduction: str) -> None:
    labelled = functional.cross_entropy(logits, LABELS, reduction=reduction)
    binary = functional.binary_cross_entropy_with_logits(logits, SOFT, reduction=reduction)
    assert [only(loss.sum()).reduction for loss in (labelled, binary)] == [reduction] * 2
    assert only(((logits - SOFT) ** 2).mean()).reduction is None


def test_softmax_is_seen_through_the_casts_of_autocast() -> None:
    model = nn.Sequential(nn.Linear(6, 3), nn.Softmax(dim=1))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = functional.cross_entropy(model(torch.randn(4, 6)), LABELS)
    assert only(loss).chain[0] == "softmax"


@pytest.mark.parametrize(("dim", "size"), [(2, 3), (1, 4), (0, 6)])
def test_the_axis_of_a_ctc_loss_is_read(dim: int, size: int) -> None:
    logits_TNC = nn.Linear(6, 3)(torch.randn(6, 4, 6))
    probabilities_TNC = functional.log_softmax(logits_TNC, dim=dim)
    lengths = torch.full((4,), 6), torch.full((4,), 2)
    targets = torch.tensor([1, 2] * 4)
    term = only(functional.ctc_loss(probabilities_TNC, targets, *lengths, reduction="sum") / 4)
    assert (term.operation, term.classes, term.softmax_sizes) == ("ctc_loss", 3, (size,))
    assert term.chain == ("log_softmax", "linear")


def test_probabilities_given_to_nll_are_told_from_log_probabilities(logits: Tensor) -> None:
    wrong = only(functional.nll_loss(logits.softmax(dim=1), LABELS))
    assert (wrong.operation, wrong.chain[0], wrong.classes) == ("nll", "softmax", 3)
    right = only(functional.nll_loss(logits.softmax(dim=1).log(), LABELS))
    assert (right.operation, right.chain[:2]) == ("nll", ("log", "softmax"))


def test_log_probabilities_twice_are_seen(logits: Tensor) -> None:
    term = only(functional.cross_entropy(functional.log_softmax(logits, dim=1), LABELS))
    assert (term.operation, term.chain[:2]) == ("cross_entropy", ("log_softmax", "linear"))


@pytest.mark.parametrize(
    ("loss", "kind", "chain"),
    [
        (
            lambda x: functional.binary_cross_entropy(x.sigmoid(), SOFT),
            "binary_cross_entropy",
            ("sigmoid", "linear"),
        ),
        (
            lambda x: functional.binary_cross_entropy_with_logits(x, SOFT),
            "binary_cross_entropy_with_logits",
            ("linear",),
        ),
        (
            lambda x: functional.binary_cross_entropy_with_logits(x.sigmoid().squeeze(), SOFT),
            "binary_cross_entropy_with_logits",
            ("sigmoid", "linear"),
        ),
        (
            lambda x: functional.binary_cross_entropy_with_logits(x * x.sigmoid(), SOFT),
            "binary_cross_entropy_with_logits",
            ("mul", "linear"),
        ),
    ],
    ids=["bce", "with logits", "with logits after sigmoid", "gated"],
)
def test_binary_losses_name_what_comes_before(
    logits: Tensor, loss: Callable[[Tensor], Tensor], kind: str, chain: tuple[str, ...]
) -> None:
    term = only(loss(logits))
    assert (term.operation, term.chain[: len(chain)]) == (kind, chain)
    assert (term.classes, term.prediction_shape) == (2, (4, 3))


ELEMENTWISE: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "mse": functional.mse_loss,
    "l1": functional.l1_loss,
    "smooth l1": functional.smooth_l1_loss,
    "huber": functional.huber_loss,
    "mse none": lambda p, t: functional.mse_loss(p, t, reduction="none").mean(),
    "square": lambda p, t: ((p - t) ** 2).mean(),
    "pow": lambda p, t: (p - t).pow(2).sum() / len(t),
    "reversed": lambda p, t: (t - p).square().mean(),
    "abs": lambda p, t: (p - t).abs().mean(),
    "times itself": lambda p, t: ((p - t) * (p - t)).mean(),
    "root": lambda p, t: ((p - t) ** 2).mean().sqrt(),
}


@pytest.mark.parametrize("loss", ELEMENTWISE.values(), ids=ELEMENTWISE)
def test_a_column_against_a_vector_is_seen_as_broadcast(
    prediction: Tensor, loss: Callable[[Tensor, Tensor], Tensor]
) -> None:
    with warnings.catch_warnings():  # as torch reports it, not mothtrap
        warnings.filterwarnings("ignore", message="Using a target size")
        term = only(loss(prediction, torch.randn(8)))
    assert term.operation == "elementwise"
    assert (term.prediction_shape, term.target_shape, term.result_shape) == ((8, 1), (8,), (8, 8))


@pytest.mark.parametrize("loss", ELEMENTWISE.values(), ids=ELEMENTWISE)
def test_equal_shapes_are_not_seen_as_broadcast(
    prediction: Tensor, loss: Callable[[Tensor, Tensor], Tensor]
) -> None:
    term = only(loss(prediction, torch.randn(8, 1)))
    assert (term.operation, term.chain) == ("elementwise", ("linear",))
    assert term.prediction_shape == term.target_shape == term.result_shape == (8, 1)


@pytest.mark.parametrize("loss", ELEMENTWISE.values(), ids=ELEMENTWISE)
def test_a_vector_against_a_column_is_seen_as_broadcast(
    prediction: Tensor, loss: Callable[[Tensor, Tensor], Tensor]
) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Using a target size")
        term = only(loss(prediction.squeeze(), torch.randn(8, 1)))
    assert (term.prediction_shape, term.target_shape, term.result_shape) == ((8,), (8, 1), (8, 8))


def test_the_outer_difference_of_quantile_regression_is_no_broadcast_mistake() -> None:
    quantiles, targets = nn.Linear(6, 5)(torch.randn(4, 6)), torch.randn(4, 5)
    errors = targets[:, None, :] - quantiles[:, :, None]
    term = only((errors.pow(2) * 0.5).sum(dim=2).mean())
    assert term.result_shape == (4, 5, 5)
    assert not _is_broadcast(_call(term))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Using a target size")
        term = only(functional.huber_loss(quantiles[:, :, None], targets[:, None, :]))
    assert not _is_broadcast(_call(term))


def test_pairs_that_are_compared_on_purpose_are_no_broadcast_mistake() -> None:
    prediction, y = nn.Linear(6, 1)(torch.randn(8, 6)).squeeze(1), torch.randn(8)
    term = only(((prediction[:, None] - y[None, :]) ** 2).mean())
    assert term.result_shape == (8, 8)
    assert not _is_broadcast(_call(term))


def test_a_broadcast_is_seen_under_the_larger_of_two_losses(prediction: Tensor) -> None:
    y, old = torch.randn(8), torch.randn(8)
    clipped = old + (prediction - old).clamp(-0.2, 0.2)
    loss = 0.5 * torch.max((prediction - y) ** 2, (clipped - y) ** 2).mean()
    [found] = [t for t in loss_terms(loss.grad_fn) if _is_broadcast(_call(t))]
    assert (found.prediction_shape, found.result_shape) == ((8, 1), (8, 8))


def test_the_gain_of_a_policy_is_seen_beside_the_loss_of_a_critic(logits: Tensor) -> None:
    values, returns, advantages = nn.Linear(6, 1)(torch.randn(4, 6)), torch.randn(4, 1), SOFT[:, 0]
    log_p = torch.distributions.Categorical(logits=logits).log_prob(LABELS)
    ratio = (log_p - log_p.detach()).exp()
    gain = torch.min(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages).mean()
    terms = loss_terms((0.5 * (values - returns).pow(2).mean() - gain).grad_fn)
    assert {term.operation for term in terms} == {"elementwise", "policy_gain"}
    weighted = ((-nn.Parameter(torch.zeros(()))).exp() * (values - returns).pow(2)).mean()
    assert {term.operation for term in loss_terms(weighted.grad_fn)} == {"elementwise"}


def _call(term: LossTerm) -> LossCall:
    return LossCall(
        step=0,
        operation=term.operation,
        prediction_shape=term.prediction_shape,
        target_shape=term.target_shape,
        result_shape=term.result_shape,
    )


def test_regularisers_beside_a_loss_are_not_taken_for_losses(logits: Tensor) -> None:
    weights = [nn.Parameter(torch.ones(3)) for _ in range(5)]
    penalty = sum(w.pow(2).sum() + w.abs().sum() for w in weights)
    assert (
        only(functional.cross_entropy(logits, LABELS) + 1e-4 * penalty).operation == "cross_entropy"
    )


def test_two_losses_added_up_are_both_seen(logits: Tensor) -> None:
    loss = functional.cross_entropy(logits, LABELS) + 0.1 * functional.mse_loss(
        logits.sigmoid(), SOFT
    )
    assert {term.operation for term in loss_terms(loss.grad_fn)} == {"cross_entropy", "elementwise"}


def test_a_loss_is_alone_when_nothing_else_that_is_trained_takes_part(logits: Tensor) -> None:
    labelled = functional.cross_entropy(logits, LABELS)
    smooth = functional.cross_entropy(logits, LABELS, label_smoothing=0.1)
    squared = ((logits - SOFT) ** 2).sum() / 4
    assert all(only(loss).alone for loss in (-labelled, smooth, -2.0 * squared + 1.0))
    gain = -(torch.distributions.Categorical(logits=logits).log_prob(LABELS)).mean()
    scale = nn.Parameter(torch.zeros(()))
    assert not only(squared + gain).alone
    assert not only((-scale).exp() * squared + scale).alone
    assert not any(term.alone for term in loss_terms((labelled + squared).grad_fn))


def test_a_difference_of_two_trained_sides_has_no_target(logits: Tensor) -> None:
    other = nn.Linear(6, 3)(torch.randn(4, 6))
    assert loss_terms(((logits - other) ** 2).mean().grad_fn) == []


def test_a_model_behind_the_loss_is_not_searched() -> None:
    inner = functional.mse_loss(nn.Linear(6, 3)(torch.randn(4, 6)).relu(), SOFT, reduction="none")
    assert (
        only(functional.cross_entropy(nn.Linear(3, 3)(inner), LABELS)).operation == "cross_entropy"
    )


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_reading_does_not_run_a_checkpointed_segment_again(use_reentrant: bool) -> None:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.calls = nn.Linear(6, 3), 0

        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            return self.layer(x).softmax(dim=1)

    model = nn.Sequential(nn.Linear(6, 6), block := Block())
    optimizer = sgd(model)
    with watched() as seen:
        for _ in range(4):
            hidden = checkpoint(block, model[0](batch()[0]), use_reentrant=use_reentrant)
            loss = functional.cross_entropy(hidden, LABELS)
            before = block.calls
            loss.backward()
            assert block.calls == before + 1
            optimizer.step()
    calls = seen.observed(LossCall)
    assert calls[0].operation == "cross_entropy"


def test_nothing_is_read_under_compilation_and_nothing_breaks() -> None:
    model = classifier()

    @torch.compile(backend="aot_eager", fullgraph=True)
    def compute(x: Tensor, y: Tensor) -> Tensor:
        return functional.cross_entropy(model(x), y)

    optimizer = sgd(model)
    with watched() as seen:
        for _ in range(2):
            x, y = batch()
            optimizer.zero_grad()
            loss = compute(x, y)
            loss.backward()
            optimizer.step()
    assert seen.observed(LossCall) == []
    assert [what for what in seen.blind() if what.startswith("how the loss at")]
    assert len(seen.scalars("loss")) == 2


def test_a_loss_without_a_graph_is_one_of_evaluation() -> None:
    model = classifier()
    x, y = batch()
    with watched() as seen:
        optimizer = sgd(model)
        with torch.no_grad():
            functional.cross_entropy(model(x), y)
        functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    calls = seen.observed(LossCall)
    assert {call.mode for call in calls} == {Mode.TRAIN, Mode.EVAL}
    assert len(calls) == 2


def test_what_stands_above_a_loss_is_named_root_first() -> None:
    prediction, target = torch.randn(4, 3, requires_grad=True), torch.tensor([0, 1, 2, 0])
    loss = functional.cross_entropy(prediction, target)
    assert _above(loss) == [()]
    assert _above(loss / 4) == [("div",)]
    by_hand = ((prediction - 1) ** 2).mean() * 0.25
    assert _above(by_hand) == [("mul", "mean")]
    assert _above(loss + by_hand / 2) == [("add",), ("add", "div", "mul", "mean")]


def _above(loss: torch.Tensor) -> list[tuple[str, ...]]:
    return [term.above for term in loss_terms(loss.grad_fn)]


def test_a_loss_that_is_subtracted_is_told() -> None:
    prediction, target = torch.randn(4, 3, requires_grad=True), torch.tensor([0, 1, 2, 0])
    loss = functional.cross_entropy(prediction, target)
    other = functional.mse_loss(prediction, torch.zeros(4, 3))
    assert _negated(loss / 4) == [False]
    assert _negated(0 - loss) == [True]
    assert _negated(-(loss - other)) == [True, False]
    assert _negated(loss * torch.tensor(-1.0)) == [None]
    [beside] = loss_terms((loss - prediction.tanh().mean()).grad_fn)
    assert (beside.negated, beside.complete) == (False, False)
    by_hand = -prediction.log_softmax(1).gather(1, target[:, None]).mean()
    assert _negated(by_hand) == [False]
    total = 0
    for _ in range(3):
        total -= functional.cross_entropy(prediction, target)
    assert _negated(total) == [True, True, True]  # type: ignore[arg-type]


def _negated(loss: torch.Tensor) -> list[bool | None]:
    return [term.negated for term in loss_terms(loss.grad_fn)]


@pytest.mark.parametrize(
    ("combine", "optimistic"),
    [
        (lambda a, b: -torch.min(a, b), False),
        (lambda a, b: torch.max(-a, -b), False),
        (lambda a, b: -torch.max(torch.min(a, b), torch.zeros(4)), False),
        (lambda a, b: torch.min(a, b), True),
        (lambda a, b: -torch.max(a, b), True),
        (lambda a, b: -(a + b), None),
    ],
    ids=["gain", "losses", "clipped twice", "wrong sign", "wrong side", "not clipped"],
)
def test_the_side_of_a_clipped_objective_is_told(
    combine: Callable[[Tensor, Tensor], Tensor], optimistic: bool | None
) -> None:
    logits = torch.randn(4, 3, requires_grad=True)
    ratio = (logits.log_softmax(1)[:, 0] - torch.randn(4)).exp()
    advantage = torch.randn(4)
    root = combine(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()
    terms = loss_terms(root.grad_fn)
    assert [(t.operation, t.optimistic) for t in terms] == [("policy_gain", optimistic)] * 2
