from __future__ import annotations

import copy
import io
import pickle
from pathlib import Path

import pytest
import torch
from tests.adapters.torch.watched import batch, classifier, sgd, train, watched
from tests.harness.running import PYTHON, run
from torch import nn
from torch.nn import functional
from torch.nn.modules import module as nn_module
from torch.optim import Optimizer
from torch.optim import optimizer as optim_optimizer

from mothtrap.core.adapters import Given
from mothtrap.core.facts.optimizers import UnownedParameter

Tensor = torch.Tensor


def hooks(model: nn.Module, optimizer: Optimizer) -> list[int]:
    return [
        *(
            len(table)
            for module in model.modules()
            for table in (
                module._forward_hooks,
                module._forward_pre_hooks,
                module._forward_hooks_always_called,
            )
        ),
        *(len(p._post_accumulate_grad_hooks or ()) for p in model.parameters()),
        len(optimizer._optimizer_step_pre_hooks),
        len(optimizer._optimizer_step_post_hooks),
    ]


def test_watching_touches_only_its_objects_and_leaves_nothing_behind() -> None:
    model, other = classifier(), classifier()
    optimizer, its_own = sgd(model), sgd(other)
    functions = torch.autograd.backward, nn.Module.__init__, Optimizer.zero_grad
    untouched = hooks(other, its_own)
    assert hooks(model, optimizer) == untouched
    with watched(model, optimizer):
        assert all(hooks(model, optimizer))
        assert hooks(other, its_own) == untouched
        assert not nn_module._global_forward_hooks
        assert not optim_optimizer._global_optimizer_pre_hooks
        assert functions == (torch.autograd.backward, nn.Module.__init__, Optimizer.zero_grad)
        train(model, optimizer, steps=2)
        train(other, its_own, steps=2)
    assert hooks(model, optimizer) == untouched


def test_a_watched_loop_is_seen() -> None:
    model = classifier()
    optimizer = sgd(model)
    with watched(model, optimizer) as seen:
        train(model, optimizer, steps=3)
        with torch.no_grad():
            model(batch()[0])
    assert [record.optimizers for record in seen.steps()] == [("SGD",)] * 3
    assert seen.scalars("gradient_state") == [0.0] * 3
    assert seen.scalars("stale_gradient") == [0.0] * 3
    assert seen.names("activation") == ["0", "1", "2"]
    assert list(seen.rows("gradient:2.bias", "l2")) == [0, 1, 2]


def test_gradients_that_no_one_clears_are_seen_to_be_stale() -> None:
    model = classifier()
    optimizer = sgd(model)
    with watched(model, optimizer) as seen:
        for _ in range(3):
            x, y = batch()
            functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    assert seen.scalars("stale_gradient") == [0.0, 1.0, 1.0]


def test_losses_are_those_that_the_user_gives() -> None:
    model = classifier()
    optimizer = sgd(model)
    with watched(model, optimizer) as seen:
        losses = []
        for number in range(3):
            [loss] = train(model, optimizer, steps=1)
            seen.tracer.step_given(Given(loss=loss, numbers={"number": float(number)}))
            losses.append(loss)
    assert seen.scalars("loss") == losses
    assert seen.scalars("number") == [0.0, 1.0, 2.0]


def test_without_an_optimizer_each_call_counts_a_step() -> None:
    from mothtrap.adapters.torch import attach
    from mothtrap.capture.containment import Containment
    from mothtrap.capture.recorder import Recorder
    from mothtrap.core.adapters import Given
    from mothtrap.statistics import torch as arithmetic
    from mothtrap.tracing.jobs.adapter_job import AdapterJob
    from mothtrap.tracing.jobs.process_job import ProcessJob

    model = classifier()
    recorder: Recorder[Tensor] = Recorder(
        arithmetic, (), Containment(print), overhead=0.0, on_first_step=lambda: None
    )
    handle = attach(AdapterJob(ProcessJob(recorder), "torch"), [model])
    for _ in range(3):
        x, y = batch()
        loss = functional.cross_entropy(model(x), y)
        loss.backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.1 * parameter.grad
                parameter.grad = None
        handle.step(Given(loss=loss, makes_step=True))
    handle.detach()
    assert recorder.steps == 3


def test_gradients_of_an_optimizer_with_a_closure_are_read() -> None:
    model = classifier()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)
    x, y = batch()

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(x), y)
        loss.backward()
        return loss

    with watched(model, optimizer) as seen:
        for _ in range(2):
            optimizer.step(closure)
    assert len(seen.steps()) == 2
    assert list(seen.rows("gradient:0.weight", "l2")) == [0, 1]


def test_a_parameter_of_no_optimizer_is_told() -> None:
    model = classifier()
    optimizer = sgd(model[0])
    with watched(model, optimizer) as seen:
        train(model, optimizer, steps=21)
    assert {found.name for found in seen.observed(UnownedParameter)} == {"2.weight", "2.bias"}


def test_the_fast_path_of_an_encoder_keeps_its_bits_and_says_what_is_not_seen() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
    model = nn.Sequential(nn.Linear(6, 8), nn.TransformerEncoder(layer, 2), nn.Linear(8, 3))
    x = torch.randn(4, 5, 6)
    model.eval()
    with torch.no_grad():
        fast = model(x)
    slow = model(x).detach()
    optimizer = sgd(model)
    with watched(model, optimizer) as seen:
        with torch.no_grad():
            assert torch.equal(model(x), fast)
        model(x).sum().backward()
        optimizer.step()
    assert not torch.equal(fast, slow)  # otherwise this test could not fail
    assert [what for what in seen.blind() if "TransformerEncoder" in what]
    assert "2" in seen.names("activation")


def test_a_model_whose_parameters_are_made_by_its_first_forward_is_watched() -> None:
    model = nn.Sequential(nn.LazyLinear(8), nn.ReLU(), nn.LazyLinear(3))
    optimizer = sgd(model)
    with watched(model, optimizer) as seen:
        train(model, optimizer, steps=2)
        assert len(model._forward_hooks) == 1  # the waiting thread has ended
        train(model, optimizer, steps=2)
    assert [record.optimizers for record in seen.steps()] == [("SGD",)] * 4
    assert set(seen.names("gradient")) == {"0.weight", "0.bias", "2.weight", "2.bias"}
    assert seen.scalars("stale_gradient") == [0.0] * 4
    assert not any(p._post_accumulate_grad_hooks for p in model.parameters())
    assert not any(len(table) for table in (model._forward_hooks, model._forward_pre_hooks))


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
@pytest.mark.parametrize("part", [False, True])
def test_a_scripted_model_is_watched_from_outside(part: bool) -> None:
    """It accepts no hooks."""
    scripted = torch.jit.script(classifier())
    model = nn.Sequential(scripted) if part else scripted
    optimizer = sgd(model)
    with watched(model, optimizer) as seen:
        train(model, optimizer, steps=3)
    assert len(seen.steps()) == 3
    assert len(seen.names("gradient")) == 4
    assert ("calls of Sequential" in seen.blind()) is not part
    assert any(what.startswith("activations inside") for what in seen.blind())


def test_a_model_with_a_list_of_the_name_of_a_wrapped_model_is_watched() -> None:
    model = classifier()
    model.module = [1, 2]
    optimizer = sgd(model)
    with watched(model, optimizer) as seen:
        train(model, optimizer, steps=2)
    assert len(seen.steps()) == 2


def test_a_copy_of_a_watched_model_is_not_watched() -> None:
    model = classifier()
    optimizer = sgd(model)
    with watched(model, optimizer) as seen:
        copied = copy.deepcopy(model)
        copied(batch()[0]).sum().backward()
        train(model, optimizer, steps=1)
    assert len(seen.steps()) == 1
    assert list(seen.rows("activation:0", "count").values()) == [32.0]


def test_a_watched_model_that_is_saved_loads_without_us(tmp_path: Path) -> None:
    model = classifier()
    with watched(model, sgd(model)):
        buffer = io.BytesIO()
        pickle.dump(model, buffer)
    path = tmp_path / "model.pkl"
    path.write_bytes(buffer.getvalue())
    assert b"mothtrap" not in buffer.getvalue()
    code = (
        "import pickle, sys, torch\n"
        "sys.modules['mothtrap'] = None\n"
        f"model = pickle.load(open({str(path)!r}, 'rb'))\n"
        "print(tuple(model(torch.ones(2, 6)).shape))\n"
    )
    done = run([*PYTHON, "-c", code], cwd=tmp_path)
    assert (done.stdout.strip(), done.returncode) == ("(2, 3)", 0), done.stderr


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_watched_model_compiles(backend: str) -> None:
    model = classifier()
    optimizer = sgd(model)
    x = batch()[0]
    expected = model(x)
    with watched(model, optimizer) as seen:
        compiled = torch.compile(model, backend=backend)
        assert torch.allclose(compiled(x), expected)
        train(compiled, optimizer, steps=2)
    assert len(seen.steps()) == 2
