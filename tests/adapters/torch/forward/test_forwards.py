from __future__ import annotations

import gc
import threading
import weakref
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from tests.adapters.torch.watched import batch, classifier, sgd, train, watched
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from mothtrap.core.facts.losses import LossSeries
from mothtrap.core.steps import Mode, StepKey

Tensor = torch.Tensor


def one_step(model: nn.Module, x: Any, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    out = model(x)
    (out if isinstance(out, Tensor) else next(iter(out.values()))).sum().backward()
    optimizer.step()


def test_every_module_is_captured_under_its_path() -> None:
    model = classifier()
    with watched() as seen:
        train(model, sgd(model), steps=2)
    assert seen.names("activation") == ["0", "1", "2"]
    info = seen.info("activation:1")
    assert (info.module, info.module_type, info.role, info.shape) == (
        "1",
        "ReLU",
        "rectifier",
        (4, 8),
    )
    assert list(seen.rows("activation:2", "l2")) == [0, 1]


def test_a_container_that_hands_on_is_not_captured_twice() -> None:
    class Adds(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(6, 6)

        def forward(self, x: Tensor) -> Tensor:
            return x + self.inner(x)

    model = nn.Sequential(nn.Sequential(nn.Linear(6, 6)), Adds())
    with watched() as seen:
        one_step(model, batch()[0], sgd(model))
    assert seen.names("activation") == ["0.0", "1.inner", "1"]


def test_a_module_called_again_in_one_forward_is_numbered() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(6, 6)

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(self.layer(x)) * 2

    model = Twice()
    with watched() as seen:
        optimizer = sgd(model)
        for _ in range(2):
            one_step(model, batch()[0], optimizer)
    assert seen.names("activation") == ["layer", "layer#1", "Twice"]
    assert list(seen.rows("activation:layer#1", "l2")) == [0, 1]


def test_outputs_in_containers_are_captured_by_place() -> None:
    class Many(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(6, 2)

        def forward(self, x: Tensor) -> dict[str, Any]:
            out = self.layer(x)
            return {"logits": out * 2, "layers": [out * 3, out * 4], "text": "nothing"}

    model = Many()
    with watched() as seen:
        one_step(model, batch()[0], sgd(model))
    assert seen.names("activation") == ["layer", "Many.logits", "Many.layers.0", "Many.layers.1"]


def test_an_output_of_a_kind_of_its_own_is_no_evaluation() -> None:
    @dataclass
    class Output:
        logits: Tensor

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(6, 2)

        def forward(self, x: Tensor) -> Output:
            return Output(self.layer(x))

    model = Model()
    with watched() as seen:
        optimizer = sgd(model)
        model(batch()[0]).logits.sum().backward()
        optimizer.step()
    assert seen.steps(Mode.EVAL) == []
    assert list(seen.rows("activation:layer", "l2")) == [0]


def test_an_output_that_is_not_a_number_is_left_alone() -> None:
    class Speaks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(6, 2)

        def forward(self, x: Tensor) -> str:
            self.layer(x)
            return "done"

    model = Speaks()
    with watched() as seen:
        optimizer = sgd(model)
        assert model(batch()[0]) == "done"
        model.layer(batch()[0]).sum().backward()
        optimizer.step()
    assert len(seen.steps()) == 1


def test_forwards_without_gradients_are_evaluation_and_number_their_own_steps() -> None:
    model = classifier()
    with watched() as seen:
        optimizer = sgd(model)
        train(model, optimizer, steps=2)
        with torch.no_grad():
            for _ in range(3):
                model(batch()[0])
        train(model, optimizer, steps=1)
        with torch.inference_mode():
            model(batch()[0])
    keys = [record.key for record in seen.steps(Mode.EVAL)]
    assert keys == [
        StepKey(step=2, mode=Mode.EVAL, mode_step=0),
        StepKey(step=2, mode=Mode.EVAL, mode_step=1),
        StepKey(step=2, mode=Mode.EVAL, mode_step=2),
        StepKey(step=3, mode=Mode.EVAL, mode_step=3),
    ]
    assert [record.key.step for record in seen.steps()] == [0, 1, 2]


def test_fine_tuning_in_eval_mode_is_training() -> None:
    model = classifier().eval()
    with watched() as seen:
        train(model, sgd(model), steps=2)
    assert seen.steps(Mode.EVAL) == []
    assert list(seen.rows("activation:0", "l2")) == [0, 1]


def test_a_loss_module_under_no_grad_is_a_loss_of_evaluation() -> None:
    model, criterion = classifier(), nn.CrossEntropyLoss()
    with watched() as seen:
        optimizer = sgd(model)
        x, y = batch()
        criterion(model(x), y).backward()
        optimizer.step()
        with torch.no_grad():
            value = criterion(model(x), y).item()
    assert seen.scalars("loss", mode=Mode.EVAL) == [value]
    assert "CrossEntropyLoss" not in seen.names("activation")


def test_the_line_of_a_loss_module_is_that_of_its_call() -> None:
    model, criterion = classifier(), nn.CrossEntropyLoss()

    def compute() -> Tensor:
        x, y = batch()
        return criterion(model(x), y)

    with watched() as seen:
        optimizer = sgd(model)
        loss = compute()
        loss.backward()
        optimizer.step()
    [series] = seen.observed(LossSeries)
    line = compute.__code__.co_firstlineno + 2
    assert str(series.location).endswith(f"test_forwards.py:{line}")


def test_activations_belong_to_the_step_of_their_forward() -> None:
    model, criterion = classifier(), nn.CrossEntropyLoss()
    with watched() as seen:
        optimizer = sgd(model)
        for _ in range(3):
            x, y = batch()
            criterion(model(x), y).backward()
            optimizer.step()
    for record in seen.steps():
        kinds = [seen.tensors[int(i)].name for i in record.tensor_T]
        assert kinds.count("2") == 1


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_forward_that_raises_leaves_the_next_one_a_root(error: type[BaseException]) -> None:
    class Breaks(nn.Module):
        fails = False

        def forward(self, x: Tensor) -> Tensor:
            if self.fails:
                raise error("on purpose")
            return x * 1.0

    model = nn.Sequential(nn.Linear(6, 6), Breaks(), nn.Linear(6, 3))
    with watched() as seen:
        optimizer = sgd(model)
        train(model, optimizer, steps=1)
        Breaks.fails = True
        with pytest.raises(error), torch.no_grad():
            model(batch()[0])
        Breaks.fails = False
        with torch.no_grad():
            model(batch()[0])
        train(model, optimizer, steps=1)
    assert len(seen.steps(Mode.EVAL)) == 1
    assert [record.key.step for record in seen.steps()] == [0, 1]
    assert list(seen.rows("activation:2", "l2")) == [0, 1]


def test_forwards_of_other_threads_are_not_watched() -> None:
    model, other = classifier(), classifier()
    with watched() as seen:
        optimizer = sgd(model)
        thread = threading.Thread(target=lambda: other(batch()[0]).sum().backward())
        thread.start()
        thread.join()
        train(model, optimizer, steps=1)
    assert seen.names("activation") == ["0", "1", "2"]
    assert seen.tracer.book.root_of(other) is None


def test_a_training_in_another_thread_is_followed() -> None:
    model = classifier()
    with watched() as seen:
        thread = threading.Thread(target=lambda: train(model, sgd(model), steps=3))
        thread.start()
        thread.join()
    assert list(seen.rows("activation:0", "l2")) == [1, 2]
    assert len(seen.scalars("loss")) == 3


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_what_a_backward_recomputes_is_not_captured_again(use_reentrant: bool) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.block = nn.Linear(6, 6), nn.Sequential(nn.Linear(6, 6), nn.ReLU())

        def forward(self, x: Tensor) -> Tensor:
            return checkpoint(self.block, self.first(x), use_reentrant=use_reentrant) * 1.0

    model = Model()
    with watched() as seen:
        optimizer = sgd(model)
        for _ in range(3):
            one_step(model, batch()[0], optimizer)
        assert seen.tracer.forwards.recomputes
    assert set(seen.names("activation")) == {"first", "block.0", "block.1", "Model"}
    assert set(seen.rows("activation:block.0", "count").values()) == {24.0}


def test_the_private_mark_of_a_running_backward_is_what_it_was() -> None:
    inside: list[int] = []
    x = torch.ones(1, requires_grad=True)
    x.register_hook(lambda _: inside.append(torch._C._current_graph_task_id()))
    assert torch._C._current_graph_task_id() == -1
    x.sum().backward()
    assert inside[0] != -1


def test_a_backward_inside_a_forward_does_not_end_the_forward() -> None:
    class Inner(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 3)

        def forward(self, x: Tensor) -> Tensor:
            torch.autograd.grad(self.a(x).sum(), list(self.a.parameters()))
            self.a(x).sum().backward()
            return self.b(x)

    model = Inner()
    with watched() as seen:
        train(model, sgd(model), steps=2)
    assert seen.steps(Mode.EVAL) == []
    assert [record.key.step for record in seen.steps()] == [0, 1]
    assert list(seen.rows("activation:b", "l2")) == [0, 1]


def test_graphs_of_forwards_that_no_backward_follows_are_let_go() -> None:
    model = classifier()
    alive: list[weakref.ref[Tensor]] = []
    with watched() as seen:
        optimizer = sgd(model)
        train(model, optimizer, steps=1)
        for _ in range(5):
            out = functional.relu(model(batch()[0]))
            alive.append(weakref.ref(out))
            del out
        gc.collect()
        assert [ref() for ref in alive] == [None] * 5
        assert all(t is None or t.grad_fn is None for _, t in seen.tracer.forwards.retained)


def test_ten_thousand_short_lived_modules_leave_nothing_behind() -> None:
    model = classifier()
    with watched() as seen:
        optimizer = sgd(model)
        train(model, optimizer, steps=1)
        x, y = batch()
        for _ in range(10_000):
            nn.CrossEntropyLoss()
        for _ in range(100):
            nn.CrossEntropyLoss()(model(x), y)
        forwards = seen.tracer.forwards
        assert len(forwards._rootless) <= 1
        assert len(seen.tracer.book._births) <= 1


def test_a_compiled_model_is_captured_from_outside_only_and_says_so() -> None:
    with watched() as seen:
        model = classifier()
        compiled = torch.compile(model, backend="eager", fullgraph=True)
        train(compiled, sgd(model), steps=2)
    assert any(what.startswith("activations inside") for what in seen.blind())
    assert "0.weight" in seen.names("gradient")
    assert len(seen.scalars("loss")) == 2
