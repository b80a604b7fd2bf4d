from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.adapters.torch.watched import batch, classifier, same, sgd, train, watched, whole
from torch import nn
from torch.nn import functional

from mothtrap.adapters.torch.losses import loss_tensors
from mothtrap.core.adapters import Given
from mothtrap.core.schedule import Schedule
from mothtrap.core.steps import Mode

Tensor = torch.Tensor
BOTH = whole("loss", "label")
CLASSES = torch.tensor([0, 2, 1, -100])
SHARES = torch.rand(4, 3, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize(
    ("loss_of", "target"),
    [
        (functional.cross_entropy, CLASSES),
        (lambda out, y: functional.cross_entropy(out, y, label_smoothing=0.1), CLASSES),
        (lambda out, y: functional.nll_loss(out.log_softmax(1), y), CLASSES),
        (functional.mse_loss, SHARES),
        (functional.smooth_l1_loss, SHARES.double()),
        (functional.binary_cross_entropy_with_logits, SHARES.bfloat16()),
        (lambda out, y: functional.binary_cross_entropy(out.sigmoid(), y), SHARES),
        (nn.CrossEntropyLoss(), CLASSES),
    ],
)
def test_losses_and_labels_are_captured_bit_by_bit(
    loss_of: Callable[[Tensor, Tensor], Tensor], target: Tensor
) -> None:
    model = classifier().to(target.dtype if target.is_floating_point() else torch.float32)
    own: list[Tensor] = []
    with watched(capture=BOTH) as seen:
        optimizer = sgd(model)
        for _ in range(3):
            optimizer.zero_grad()
            own.append(loss_of(model(batch()[0].to(model[0].weight.dtype)), target))
            own[-1].backward()
            optimizer.step()
    [series], [label] = seen.names("loss"), seen.names("label")
    assert series.endswith(" SGD")
    assert same(seen.raw(f"loss:{series}"), own)
    assert same(seen.raw(f"label:{label}"), [target] * 3)
    assert not same(seen.raw(f"label:{label}"), [target.roll(1)] * 3)


def test_the_loss_of_micro_batches_is_their_sum_and_each_has_its_labels() -> None:
    model = classifier()
    own: list[Tensor] = []
    with watched(capture=BOTH) as seen:
        optimizer = sgd(model)
        for _ in range(2):
            optimizer.zero_grad()
            losses = [functional.cross_entropy(model(batch()[0]), batch()[1]) for _ in range(2)]
            for loss in losses:
                loss.backward()
            own.append(torch.stack([loss.detach().double() for loss in losses]).sum().float())
            optimizer.step()
    [series], [label] = seen.names("loss"), seen.names("label")
    assert same(seen.raw(f"loss:{series}"), own)
    assert [step for step, _ in seen.raw(f"label:{label}")] == [0, 0, 1, 1]


def test_several_targets_of_one_loss_are_numbered() -> None:
    model = classifier()
    with watched(capture=BOTH) as seen:
        out = model(batch()[0])
        loss = functional.cross_entropy(out, CLASSES) + functional.mse_loss(out, SHARES)
        loss.backward()
        sgd(model).step()
    first, second = seen.names("label")
    assert second == f"{first}.1"
    [(_, classes)], [(_, shares)] = seen.raw(f"label:{first}"), seen.raw(f"label:{second}")
    assert torch.equal(classes, CLASSES)
    assert torch.equal(shares, SHARES)


def test_a_loss_under_a_scaler_is_the_unscaled_one() -> None:
    model = classifier()
    with watched(capture=BOTH) as seen:
        optimizer = sgd(model)
        scaler = torch.amp.GradScaler("cpu", init_scale=512.0)
        loss = functional.cross_entropy(model(batch()[0]), CLASSES)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    [series] = seen.names("loss")
    assert same(seen.raw(f"loss:{series}"), [loss])


def test_a_loss_given_by_the_user_is_that_of_the_step() -> None:
    model = classifier()
    optimizer = sgd(model)
    with watched(model, optimizer, capture=BOTH) as seen:
        for value in (1.5, torch.tensor(2.5)):
            model(batch()[0]).sum().backward()
            optimizer.step()
            seen.tracer.step_given(Given(loss=value))
    kept = [value for name in seen.names("loss") for _, value in seen.raw(f"loss:{name}")]
    assert [value.item() for value in kept] == [1.5, 2.5]
    assert "labels" in seen.blind()


def test_an_evaluation_by_a_loss_module_tells_loss_and_labels() -> None:
    model, criterion = classifier(), nn.CrossEntropyLoss()
    schedule = Schedule(every=2)
    own: list[Tensor] = []
    with watched(capture=whole("loss", "label", schedule=schedule, modes=(Mode.EVAL,))) as seen:
        train(model, sgd(model), steps=1)
        with torch.no_grad():
            for number in range(5):
                loss = criterion(model(batch()[0]), target=CLASSES.clone().clamp(max=number))
                own.append(loss.clone())
    [name] = seen.names("loss")
    assert seen.names("label") == [name]
    losses, labels = seen.raw(f"loss:{name}", Mode.EVAL), seen.raw(f"label:{name}", Mode.EVAL)
    assert [torch.equal(a, own[i]) for (_, a), i in zip(losses, (0, 2, 4), strict=True)] == [
        True
    ] * 3
    assert [int(label.max()) for _, label in labels] == [0, 2, 2]
    assert seen.steps(Mode.TRAIN)[0].raw == ()


def test_labels_that_a_graph_does_not_hold_are_told_to_be_unseen() -> None:
    model = classifier()
    with watched(capture=BOTH) as seen:
        loss = (model(batch()[0]) - SHARES).square().mean()
        loss.backward()
        sgd(model).step()
    assert seen.names("label") == []
    [told] = [what for what in seen.blind() if what.startswith("labels of the loss at ")]
    assert "test_loss_tensors.py" in told


def test_saved_tensors_that_someone_packed_stay_packed() -> None:
    unpacked: list[int] = []

    def unpack(value: Tensor) -> Tensor:
        unpacked.append(seen.tracer._backward_depth and torch._C._current_graph_task_id())
        return value

    model = classifier()
    with watched(capture=BOTH) as seen:
        with torch.autograd.graph.saved_tensors_hooks(lambda value: value, unpack):
            loss = functional.cross_entropy(model(batch()[0]), CLASSES)
        loss.backward()
        sgd(model).step()
    assert unpacked
    assert -1 not in unpacked, "read outside of the backward"
    assert seen.names("label") == []


def test_labels_of_very_many_backwards_are_cut_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss_tensors, "MAX_TARGETS", 3)
    model = classifier()
    with watched(capture=BOTH) as seen:
        optimizer = sgd(model)
        for _ in range(2):
            for _ in range(5):
                functional.cross_entropy(model(batch()[0]), CLASSES).backward()
            optimizer.step()
    [label] = seen.names("label")
    assert [step for step, _ in seen.raw(f"label:{label}")] == [0, 0, 0, 1, 1, 1]


def test_labels_can_fail_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("planted")

    model = classifier()
    with watched(capture=BOTH, may_fail=True) as seen:
        monkeypatch.setattr(seen.tracer.losses, "read_labels", fails)
        losses = train(model, sgd(model))
    assert seen.failed() == ["labels"]
    assert seen.scalars("loss") == losses
