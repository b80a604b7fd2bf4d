"""Activations in compiled code: as in eager mode, without a graph break, and without retracing."""

from __future__ import annotations

import copy
import pickle
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from tests.adapters.torch.watched import DEFAULT, EVERYTHING, Seen, batch, sgd, watched
from torch import nn

from mothtrap.adapters.torch.forward.compilations import SEEN_THROUGH_TAPS
from mothtrap.adapters.torch.forward.taps import TOKEN, is_tapped, tap
from mothtrap.core.collections import Collection
from mothtrap.core.config import Config
from mothtrap.core.facts.captures import Blind
from mothtrap.core.steps import Mode

# Dynamo raises these where it reads PyTorch's code
pytestmark = pytest.mark.filterwarnings("ignore")
counters = torch._dynamo.utils.counters
has_compiler = any(shutil.which(name) for name in ("c++", "g++", "clang++"))
ASKED = Config(capture="everything")


@pytest.fixture(autouse=True)
def _nothing_compiled() -> Iterator[None]:
    torch._dynamo.reset()
    counters.clear()
    yield
    torch._dynamo.reset()


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.rectifier, self.norm = nn.Linear(6, 6), nn.ReLU(), nn.LayerNorm(6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x + self.rectifier(self.layer(self.layer(x))))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks, self.head = nn.Sequential(Block(), Block()), nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(x))


def _train(how: str, backend: str, *, dynamic: bool = False, **options: Any) -> list[float]:
    torch.manual_seed(0)
    model: nn.Module = Net()
    optimizer = sgd(model)
    if how == "parts":
        for place in range(2):
            model.blocks[place] = torch.compile(model.blocks[place], backend=backend, **options)
    elif how == "method":
        model.compile(backend=backend, **options)
    elif how == "module":
        model = torch.compile(model, backend=backend, fullgraph=True, **options)
    losses = []
    for step in range(3):
        x, y = batch(4 + step if dynamic else 4)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    with torch.no_grad():
        losses.append(model(batch()[0]).sum().item())
    return losses


def _graphs() -> int:
    made = counters["stats"]["unique_graphs"]
    torch._dynamo.reset()
    counters.clear()
    return made


def _reasons(seen: Seen) -> set[str]:
    return {blind.reason for blind in seen.observed(Blind)}


@pytest.mark.parametrize(
    ("how", "backend", "dynamic"),
    [
        ("module", "eager", False),
        pytest.param("module", "aot_eager", True, marks=pytest.mark.full),
        pytest.param("method", "aot_eager", False, marks=pytest.mark.full),
        pytest.param("parts", "aot_eager", False, marks=pytest.mark.full),
    ],
)
def test_activations_that_are_asked_for_are_captured_in_the_same_graphs(
    how: str, backend: str, dynamic: bool
) -> None:
    expected, graphs = _train(how, backend, dynamic=dynamic), _graphs()
    with watched(config=ASKED, capture=EVERYTHING) as plain:
        _train("plain", "")
    with watched(config=ASKED, capture=EVERYTHING) as seen:
        assert _train(how, backend, dynamic=dynamic) == expected  # bit for bit
    assert _graphs() == graphs
    compiled = {"blocks.0", "blocks.1"} if how == "parts" else {"Net"}  # as seen from eager code
    assert set(seen.names("activation")) - compiled == set(plain.names("activation"))
    assert {"blocks.0.layer", "blocks.0.layer#1", "blocks.1.norm"} <= set(seen.names("activation"))
    assert _reasons(seen) == {SEEN_THROUGH_TAPS}
    if dynamic:
        return  # the plain training had other batches
    for name in plain.names("activation"):
        for statistic in ("count", "nan", "inf", "zero", "min", "max", "mean", "l2", "abs_sum"):
            for mode in (Mode.TRAIN, Mode.EVAL):
                own = plain.rows(f"activation:{name}", statistic, mode)
                found = seen.rows(f"activation:{name}", statistic, mode)
                assert found.keys() == own.keys()
                assert list(found.values()) == pytest.approx(list(own.values()), 1e-5, 1e-6)


@pytest.mark.skipif(not has_compiler, reason="no C++ compiler on PATH")
@pytest.mark.full
def test_generated_kernels_compute_the_same_bits() -> None:
    found, passed = [], []
    for tapped in (False, True):
        torch._dynamo.reset()
        torch.manual_seed(0)
        model = Block()
        taps = tap(model.children(), lambda *about: passed.append(about)) if tapped else []
        with torch._inductor.config.patch(compile_threads=1):  # more would start worker processes
            loss = torch.compile(model, fullgraph=True)(batch()[0]).square().sum()
            loss.backward()
        found.append([loss.item(), *(p.grad.tolist() for p in model.parameters())])
        for each in taps:
            each.remove()
    assert found[0] == found[1]
    assert [type(module).__name__ for module, _ in passed] == [
        "Linear",
        "Linear",
        "ReLU",
        "LayerNorm",
    ]


@pytest.mark.parametrize(
    ("config", "capture"),
    [
        (Config(), DEFAULT),
        (Config(capture="everything", inside_compiled=False), EVERYTHING),
        (Config(collections={"early": Collection(tensors=("gradients",))}), DEFAULT),
    ],
)
def test_no_tap_is_put_where_no_one_asks_for_it(config: Config, capture: Any) -> None:
    with watched(config=config, capture=capture):
        model = Net()
        torch.compile(model, backend="eager")
        assert not is_tapped(model)


def test_a_collection_of_activations_asks_for_taps() -> None:
    config = Config(collections={"early": Collection(tensors=("activations:blocks.0.*",))})
    with watched(config=config):
        model = Net()
        torch.compile(model, backend="eager")
        assert is_tapped(model)
    assert not is_tapped(model)
    assert all(not module._forward_hooks for module in model.modules())


def test_none_is_put_where_kernels_are_played_again() -> None:
    with watched(config=ASKED):
        model = Net()
        torch.compile(model, mode="reduce-overhead")
        torch.compile(model, options={"triton.cudagraphs": True})
        assert not is_tapped(model)


def test_none_is_put_where_hooks_change_results() -> None:
    with watched(config=ASKED):
        model = nn.TransformerEncoderLayer(4, 2)
        torch.compile(nn.Sequential(model, nn.Linear(4, 4)), backend="eager")
        assert not is_tapped(model)


def test_copies_and_graphs_of_others_bear_no_tap() -> None:
    passed: list[nn.Module] = []
    model = Net()
    taps = tap(model.blocks, lambda module, _: passed.append(module))
    x = batch()[0]
    torch.compile(copy.deepcopy(model), backend="eager")(x)
    torch.compile(pickle.loads(pickle.dumps(model)), backend="eager")(x)
    program = torch.export.export(model, (x,))
    assert passed == []
    assert "mothtrap" not in str(program.graph)
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="eager")
    compiled(x)
    assert passed == [*model.blocks]
    for each in taps:
        each.remove()
    del taps[:], each
    compiled(x)
    assert passed == [*model.blocks]
    assert not any(TOKEN in vars(module) for module in model.modules())
