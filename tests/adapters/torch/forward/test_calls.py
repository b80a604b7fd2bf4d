from __future__ import annotations

import gc
import io
import threading
import warnings
import weakref
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from tests.adapters.torch.watched import Seen, batch, classifier, same, sgd, train, watched, whole
from torch import nn

from mothtrap.adapters.torch.forward import calls
from mothtrap.core.schedule import Schedule
from mothtrap.core.steps import Mode

Tensor = torch.Tensor
ALL = whole("input", "activation", "output", "activation_gradient")


class Output(OrderedDict):
    """Output type of models of transformers."""


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(6, 6)

    def forward(self, x: Tensor, *, mask: Tensor) -> tuple[Tensor, None]:
        return self.mix(x) * mask, None


class Model(nn.Module):
    """Takes and returns containers; keeps copies of what passes through it, call by call."""

    def __init__(self) -> None:
        super().__init__()
        self.attn, self.head = Attention(), nn.Linear(6, 3)
        self.own: dict[str, list[Tensor]] = {}

    def keep(self, name: str, value: Tensor) -> Tensor:
        kept = self.own.setdefault(name, [])
        kept.append(value.detach().clone())
        return value

    def keep_gradient(self, gradient: Tensor) -> None:
        self.keep("gradient", gradient)

    def forward(self, batch: tuple[Tensor, list[Tensor]], *, scale: Tensor) -> Output:
        x, (mask,) = batch
        for name, value in (("x", x), ("mask", mask), ("scale", scale)):
            self.keep(name, value)
        hidden = self.keep("hidden", self.attn(x, mask=mask)[0])
        hidden.register_hook(self.keep_gradient)
        logits = self.keep("logits", self.head(hidden * scale))
        return Output(loss=logits.square().mean(), logits=logits)


def one_step(model: Model, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    given = (torch.randn(4, 6), [torch.rand(4, 1).bfloat16().float()])
    model(given, scale=torch.tensor(2.0))["loss"].backward()
    optimizer.step()


def observed(capture: Any = ALL, steps: int = 3) -> tuple[Seen, Model]:
    model = Model()
    with watched(capture=capture) as seen:
        optimizer = sgd(model)
        for _ in range(steps):
            one_step(model, optimizer)
    return seen, model


@pytest.mark.parametrize("watches_process", [True, False])
def test_what_passes_through_a_model_is_captured_bit_by_bit(watches_process: bool) -> None:
    model = Model()
    optimizer = sgd(model)
    given = () if watches_process else (model, optimizer)
    with watched(*given, capture=ALL) as seen:
        for _ in range(3):
            one_step(model, optimizer)
    for identity, own in {
        "input:Model.0.0": "x",
        "input:Model.0.1.0": "mask",
        "input:Model.scale": "scale",
        "activation:attn.0": "hidden",
        "activation_gradient:attn.0": "gradient",
        "activation:head": "logits",
        "output:Model.logits": "logits",
    }.items():
        assert len(model.own[own]) == 3
        assert same(seen.raw(identity), model.own[own]), identity


def test_one_wrong_bit_is_seen() -> None:
    seen, model = observed()
    model.own["logits"][1].view(torch.int32)[0, 0] ^= 1
    assert not same(seen.raw("output:Model.logits"), model.own["logits"])


def test_kinds_tell_what_is_of_a_whole_model() -> None:
    seen, _ = observed()
    info = seen.info("input:Model.scale")
    assert (info.module, info.module_type, info.shape, info.dtype) == (
        "Model",
        "Model",
        (),
        "float32",
    )
    assert {i.identity for i in seen.tensors.values() if i.of_root} == {
        *("input:Model.0.0", "input:Model.0.1.0", "input:Model.scale"),
        *("output:Model.loss", "output:Model.logits"),
    }


def test_inputs_of_a_part_come_when_its_name_is_asked_for() -> None:
    asked = whole("input", matches=lambda info: info.name.startswith("attn."))
    seen, model = observed(asked)
    assert seen.kept() == {"input:attn.0", "input:attn.mask"} | {"input:attn.mix.0"}
    assert same(seen.raw("input:attn.mask"), model.own["mask"])


def test_inputs_are_taken_before_a_module_changes_them() -> None:
    model = nn.Sequential(nn.Linear(6, 6), nn.ReLU(inplace=True))
    before: list[Tensor] = []
    model[0].register_forward_hook(lambda *a: before.append(a[2].detach().clone()))
    with watched(capture=whole("input", matches=lambda info: info.module == "1")) as seen:
        optimizer = sgd(model)
        model(batch()[0]).sum().backward()
        optimizer.step()
    assert bool((before[0] < 0).any())
    assert same(seen.raw("input:1.0"), before)


def test_nothing_is_looked_at_that_no_one_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    for name in ("entered", "left", "returned"):
        monkeypatch.setattr(
            calls.CallCapture, name, lambda *_, name=name, **__: looked.append(name)
        )
    for capture, expected in (
        ((), set()),
        (whole("gradient", "weight"), set()),
        (whole("input"), {"entered"}),
        (whole("output"), {"returned"}),
        (whole("activation_gradient"), {"left"}),
    ):
        looked.clear()
        observed(capture)
        assert set(looked) == expected


def test_a_schedule_of_steps_is_kept() -> None:
    seen, model = observed(whole(*ALL[0].kinds, schedule=Schedule(steps=(1, 3))), steps=5)
    for identity, own in {"input:Model.0.0": "x", "activation_gradient:attn.0": "gradient"}.items():
        assert [step for step, _ in seen.raw(identity)] == [1, 3]
        assert torch.equal(seen.raw(identity)[1][1], model.own[own][3])


def test_a_schedule_of_evaluations_counts_their_forwards() -> None:
    model = classifier()
    own: list[Tensor] = []
    capture = whole("output", "input", schedule=Schedule(start=1, every=2), modes=(Mode.EVAL,))
    with watched(capture=capture) as seen:
        optimizer = sgd(model)
        for _ in range(2):
            train(model, optimizer, steps=1)
            with torch.no_grad():
                own += [model(batch()[0]) for _ in range(3)]
    kept = seen.raw("output:Sequential", Mode.EVAL)
    assert [torch.equal(a, b) for (_, a), b in zip(kept, (own[1], own[3], own[5]), strict=True)]
    assert [step for step, _ in kept] == [1, 2, 2]
    assert seen.steps(Mode.TRAIN)[0].raw == ()


def test_a_reused_module_is_numbered_by_its_calls() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(6, 6)

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(self.layer(x)) * 2

    model = Twice()
    with watched(capture=whole(*ALL[0].kinds, matches=lambda _: True)) as seen:
        model(batch()[0]).sum().backward()
        sgd(model).step()
    for kind in ("activation", "activation_gradient"):
        assert seen.names(kind) == ["layer", "layer#1", "Twice"]
    assert seen.names("input") == ["Twice.0", "layer.0", "layer.0#1"]
    [(_, first)], [(_, second)] = seen.raw("activation:layer"), seen.raw("input:layer.0#1")
    assert torch.equal(first, second)


def test_two_roots_of_one_class_have_names_of_their_own() -> None:
    models = [classifier(), classifier()]
    own: list[Tensor] = []
    with watched(capture=ALL) as seen:
        for model in models:
            own.append(model(batch()[0]).detach())
            sgd(model).step()
    for kind, tail in (("input", ".0"), ("output", "")):
        assert seen.names(kind) == [f"Sequential{tail}", f"Sequential#1{tail}"]
    assert seen.names("activation") == ["0", "1", "2", *(f"Sequential#1.{i}" for i in range(3))]


def test_names_that_would_be_equal_are_told_apart() -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.add_module("0", nn.Linear(6, 6))
            self.hidden = [nn.Linear(6, 6), nn.Linear(6, 6)]

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            inner = self.get_submodule("0")(x)
            return inner + self.hidden[0](x), inner * self.hidden[1](x)

    model = nn.ModuleDict({"part": Odd()})
    model.forward = lambda x: sum(model["part"](x))  # type: ignore[method-assign]
    with watched(capture=ALL) as seen:
        model(batch()[0]).sum().backward()
        sgd(model).step()
    names = seen.names("activation")
    assert names == ["part.0", "Linear", "Linear~1", "part.0~1", "part.1", "ModuleDict"]
    assert len({torch.sum(seen.raw(f"activation:{name}")[0][1]).item() for name in names}) == 6


def test_a_name_is_free_again_when_its_module_is_gone() -> None:
    with watched(capture=ALL) as seen:
        model = nn.Sequential(nn.Linear(6, 6), nn.Tanh())
        for _ in range(3):
            model[1] = nn.Tanh()
            gc.collect()
            model(batch()[0]).sum().backward()
            sgd(model).step()
    assert set(seen.names("activation")) == {"0", "1"}
    assert len(seen.raw("activation:1")) == 3


def test_gradients_of_penalties_are_not_those_of_the_loss() -> None:
    model = classifier()
    with watched(capture=whole("activation_gradient")) as seen:
        x = batch()[0].requires_grad_()
        out = model(x)
        [slope] = torch.autograd.grad(out.sum(), x, create_graph=True)
        (out.square().sum() / 2 + slope.square().mean()).backward()
        sgd(model).step()
    assert same(seen.raw("activation_gradient:2"), [out])


def test_many_backwards_through_one_output_are_cut_short() -> None:
    model = classifier()
    with watched(capture=whole("activation_gradient")) as seen:
        out = model(batch()[0]).sum()
        for _ in range(2 * calls.MAX_BACKWARDS):
            out.backward(retain_graph=True)
        sgd(model).step()
    assert len(seen.raw("activation_gradient:2")) == calls.MAX_BACKWARDS


def test_a_parameter_that_is_an_output_bears_no_hooks() -> None:
    class Position(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.at = nn.Parameter(torch.ones(4, 6))

        def forward(self, x: Tensor) -> Tensor:
            return self.at

    model = nn.Sequential(Position(), nn.Linear(6, 3))
    with watched(capture=whole("activation_gradient", "gradient")) as seen:
        train(model, sgd(model))
        assert not model[0].at._backward_hooks
    assert seen.names("activation_gradient") == ["0", "1"]
    assert {"activation_gradient:1", "gradient:0.at"} <= seen.kept()
    assert "activation_gradient:0" not in seen.kept()


def test_an_output_can_be_saved_and_let_go() -> None:
    model = classifier()
    with watched(capture=whole("activation_gradient")):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            out = model(batch()[0])
            assert out._backward_hooks
            torch.save(out, io.BytesIO())
        gone = weakref.ref(out)
        del out
        gc.collect()
        assert gone() is None


def test_a_compiled_model_is_named_like_the_plain_one() -> None:
    model = classifier()
    own: list[Tensor] = []
    with watched(capture=ALL) as seen:
        optimizer = sgd(model)
        compiled: Any = torch.compile(model, backend="eager")
        for called in (model, compiled, model):
            own.append(called(batch()[0]))
            own[-1].sum().backward()
            optimizer.step()
    assert same(seen.raw("output:Sequential"), own)
    assert [step for step, _ in seen.raw("activation:2")] == [0, 2]
    assert "activations inside Sequential" in seen.blind()


class OnThreads(nn.DataParallel):
    """Runs its replicas on threads, as on several devices, but on the CPU."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__(module)
        self.device_ids = [0, 1]

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        parts: dict[int, Tensor] = {}
        threads = [
            threading.Thread(target=lambda i=i, part=part: parts.update({i: self.module(part)}))
            for i, part in enumerate(x.chunk(2))
        ]
        for thread in threads:
            thread.start()
            thread.join()
        return torch.cat([parts[i] for i in sorted(parts)])


@pytest.mark.parametrize("wrap", [nn.DataParallel, OnThreads])
def test_data_parallel_keeps_the_names_and_says_what_it_hides(wrap: Any) -> None:
    own: list[Tensor] = []
    given: list[Tensor] = []
    with watched(capture=ALL) as seen:
        model = wrap(classifier())
        optimizer = sgd(model)
        for _ in range(2):
            given.append(batch()[0])
            own.append(model(given[-1]))
            own[-1].sum().backward()
            optimizer.step()
    threads = wrap is OnThreads
    assert same(seen.raw("input:Sequential.0"), given)
    assert same(seen.raw("output:Sequential"), own)
    assert seen.names("activation") == (["Sequential"] if threads else ["0", "1", "2"])
    assert ("activations inside Sequential" in seen.blind()) == threads


def test_a_wrapper_around_a_known_model_joins_it() -> None:
    model = classifier()
    with watched(capture=ALL) as seen:
        optimizer = sgd(model)
        for called in (model, nn.DataParallel(model), model):
            called(batch()[0]).sum().backward()
            optimizer.step()
    assert seen.names("input") == ["Sequential.0"]
    assert seen.names("output") == ["Sequential"]
    assert seen.names("activation") == ["0", "1", "2"]
    assert len(seen.raw("output:Sequential")) == 3


@dataclass
class Plain:
    logits: Tensor


def test_an_output_of_a_dataclass_is_named_by_its_field() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(6, 2)

        def forward(self, x: Tensor) -> Plain:
            return Plain(self.layer(x) * 1)

    model = Net()
    with watched(capture=ALL) as seen:
        optimizer = sgd(model)
        with torch.no_grad():
            model(batch()[0])
        model(batch()[0]).logits.sum().backward()
        optimizer.step()
    assert seen.names("output") == ["Net.logits"]
    assert seen.names("activation") == ["layer", "Net.logits"]
