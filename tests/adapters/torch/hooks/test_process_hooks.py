from __future__ import annotations

import copy
import inspect
import pickle
import traceback
import types
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.adapters.torch.watched import batch, classifier, sgd, train, watched
from torch import nn
from torch.nn import functional
from torch.nn.modules import module as nn_module
from torch.optim import Optimizer
from torch.optim import optimizer as optim_optimizer
from torch.utils.data import dataloader

import mothtrap

REPLACED: dict[str, tuple[Any, str]] = {
    "backward": (torch.autograd, "backward"),
    "grad": (torch.autograd, "grad"),
    "module": (nn.Module, "__init__"),
    "call": (nn.Module, "_call_impl"),
    "optimizer": (Optimizer, "__init__"),
    "zero_grad": (Optimizer, "zero_grad"),
    "zero_grad of modules": (nn.Module, "zero_grad"),
    "add_param_group": (Optimizer, "add_param_group"),
    "scale": (torch.amp.GradScaler, "scale"),
    "scaler step": (torch.amp.GradScaler, "step"),
    "clip": (nn.utils, "clip_grad_norm_"),
    "clip in its module": (nn.utils.clip_grad, "clip_grad_norm_"),
    "loader": (dataloader.DataLoader, "__iter__"),
    "loader's iterator": (dataloader._BaseDataLoaderIter, "__next__"),
    "loader's sampler": (dataloader._BaseDataLoaderIter, "_next_index"),
}
HOOKS = (
    optim_optimizer._global_optimizer_pre_hooks,
    optim_optimizer._global_optimizer_post_hooks,
)


def state() -> tuple[object, ...]:
    functions = [vars(owner)[name] for owner, name in REPLACED.values()]
    return (*functions, *(dict(table) for table in HOOKS))


def changed(before: tuple[object, ...]) -> set[int]:
    pairs = zip(state(), before, strict=True)
    return {i for i, (now, then) in enumerate(pairs) if now is not then and now != then}


def test_detaching_restores_everything_exactly() -> None:
    before = state()
    with watched():
        assert changed(before) == set(range(len(before))), changed(before)
        assert all(table for table in HOOKS)
        model = classifier()
        train(model, sgd(model), steps=1)
    assert changed(before) == set()


def test_detaching_restores_everything_after_an_exception() -> None:
    before = state()
    with pytest.raises(ZeroDivisionError), watched():
        1 / 0
    assert changed(before) == set()


@pytest.mark.parametrize("name", REPLACED)
def test_a_replaced_function_looks_like_its_original(name: str) -> None:
    owner, attribute = REPLACED[name]
    original = getattr(owner, attribute)
    with watched():
        replaced = getattr(owner, attribute)
        assert replaced is not original
        assert replaced.__name__ == original.__name__
        assert replaced.__qualname__ == original.__qualname__
        assert replaced.__doc__ == original.__doc__
        assert replaced.__module__ == original.__module__
        assert inspect.signature(replaced) == inspect.signature(original)
        assert isinstance(replaced, types.FunctionType)


def fails_in_backward() -> None:
    model = classifier()
    loss = functional.cross_entropy(model(batch()[0]), batch()[1])
    loss.backward()
    loss.backward()


def fails_in_grad() -> None:
    torch.autograd.grad(torch.ones(()), torch.ones(()))


def fails_in_zero_grad() -> None:
    optimizer = sgd(classifier())
    optimizer.param_groups[0]["params"].append(3)
    optimizer.zero_grad()


def fails_in_clipping() -> None:
    weight = nn.Parameter(torch.ones(2))
    weight.grad = torch.full((2,), torch.nan)
    nn.utils.clip_grad_norm_([weight], 1.0, error_if_nonfinite=True)


def fails_in_optimizer() -> None:
    torch.optim.SGD([], lr=0.1)


def fails_in_param_group() -> None:
    sgd(classifier()).add_param_group({"params": [3]})


def fails_in_step() -> None:
    optimizer = torch.optim.LBFGS(classifier().parameters())

    def closure() -> torch.Tensor:
        raise ZeroDivisionError

    optimizer.step(closure)


def fails_in_scaler_step() -> None:
    scaler = torch.amp.GradScaler("cpu")
    scaler.step(sgd(classifier()))


def fails_in_scaling() -> None:
    torch.amp.GradScaler("cpu").scale(3)


def fails_in_module() -> None:
    nn.Module(3)


def fails_in_forward() -> None:
    classifier()(torch.ones(2, 99))


@pytest.mark.parametrize(
    "fail",
    [
        fails_in_backward,
        fails_in_grad,
        fails_in_zero_grad,
        fails_in_clipping,
        fails_in_optimizer,
        fails_in_param_group,
        fails_in_step,
        fails_in_scaler_step,
        fails_in_scaling,
        fails_in_module,
        fails_in_forward,
    ],
)
def test_tracebacks_show_no_frame_of_ours(fail: Callable[[], None]) -> None:
    with pytest.raises(Exception) as plain:  # noqa: PT011
        fail()
    with pytest.raises(Exception) as seen, watched():  # noqa: PT011
        fail()
    assert type(seen.value) is type(plain.value)
    assert str(seen.value) == str(plain.value)
    ours = mothtrap.__path__[0]
    frames = traceback.extract_tb(seen.value.__traceback__)
    assert not [frame for frame in frames if frame.filename.startswith(ours)]
    assert seen.value.__context__ is plain.value.__context__ is None


def test_every_call_of_a_module_goes_through_the_private_function_that_is_replaced() -> None:
    calls: list[str] = []

    class Model(nn.Module):
        def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
            calls.append("private")
            return super()._call_impl(*args, **kwargs)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            calls.append("forward")
            return x

    Model()(torch.ones(1))
    assert calls == ["private", "forward"]


def test_results_pass_through_unchanged() -> None:
    weight = nn.Parameter(torch.full((2,), 3.0))
    with watched():
        scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
        scaled = scaler.scale([weight.sum(), weight.sum() * 2])
        assert [value.item() for value in scaled] == [24.0, 48.0]
        [gradient] = torch.autograd.grad(outputs=weight.sum(), inputs=[weight])
        assert gradient.tolist() == [1.0, 1.0]
        torch.autograd.backward(tensors=(weight * 2).sum())
        assert weight.grad is not None
        assert nn.utils.clip_grad_norm_([weight], 100.0).item() == pytest.approx(8**0.5)


def test_attaching_and_detaching_twice_gives_two_whole_records() -> None:
    for _ in range(2):
        model = classifier()
        with watched() as seen:
            losses = train(model, sgd(model), steps=2)
        assert seen.scalars("loss") == losses


def test_nothing_is_seen_after_detaching() -> None:
    model = classifier()
    with watched() as seen:
        optimizer = sgd(model)
        train(model, optimizer, steps=2)
    count = len(seen.records)
    train(model, optimizer, steps=2)
    assert len(seen.records) == count


def test_a_compiled_model_gives_no_warning_about_global_hooks() -> None:
    model = classifier()
    with warnings.catch_warnings(record=True) as caught, watched() as seen:
        warnings.simplefilter("always")
        compiled = torch.compile(model, backend="eager")
        train(compiled, sgd(model), steps=2)
    assert [str(w.message) for w in caught if "hook" in str(w.message)] == []
    assert len(seen.scalars("loss")) == 2


def test_hooks_of_others_still_give_the_warning() -> None:
    def hooked() -> list[str]:
        handle = nn_module.register_module_forward_hook(lambda *_: None)
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                torch.compile(classifier(), backend="eager")(batch()[0])
        finally:
            handle.remove()
        return [str(w.message) for w in caught if "hook" in str(w.message)]

    expected = hooked()
    with watched():
        found = hooked()
    assert expected
    assert found == expected


def test_models_copy_pickle_and_script_while_watched() -> None:
    with watched():
        model = classifier()
        x = batch()[0]
        expected = model(x)
        assert torch.equal(copy.deepcopy(model)(x), expected)
        assert torch.equal(pickle.loads(pickle.dumps(model))(x), expected)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            assert torch.equal(torch.jit.script(model)(x), expected)
            assert torch.equal(torch.jit.trace(model, x)(x), expected)
            torch.jit.script(nn.CrossEntropyLoss())
        torch.export.export(model, (x,))


def test_modules_of_any_constructor_can_be_made() -> None:
    class Late(nn.Module):
        def __init__(self) -> None:
            nn.Module.__init__(self)
            super().__init__()
            self.layer = nn.Linear(2, 2)

    class Slotted(nn.Module):
        __slots__ = ("x",)

    with watched():
        assert isinstance(Late().layer, nn.Linear)
        assert list(Slotted().parameters()) == []


def test_training_ends_at_the_same_bits() -> None:
    def digest() -> list[torch.Tensor]:
        torch.manual_seed(3)
        model = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5), nn.BatchNorm1d(8), nn.Linear(8, 3))
        train(model, torch.optim.AdamW(model.parameters()), steps=4)
        return [*model.state_dict().values(), torch.get_rng_state()]

    expected = digest()
    with watched():
        found = digest()
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
