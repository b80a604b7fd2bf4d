from __future__ import annotations

import inspect
import pickle
import traceback
from collections.abc import Iterator

import pytest
import torch
from tests.adapters.torch.watched import batch, classifier, sgd, train, watched
from torch import nn
from torch.nn import functional

from mothtrap.adapters.torch.losses import loss_calls
from mothtrap.adapters.torch.losses.loss_calls import FUNCTIONS, inputs_of, mean_of, observed

ORIGINALS = {name: getattr(functional, name) for name in FUNCTIONS}
Seen = list[tuple[str, torch.Tensor]]


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Seen]:
    """Install replacements for the functions; return what they reported."""
    told: Seen = []
    with watched() as job:
        sampling = job.tracer.sampling  # the way in which a process is watched is tested below
    with pytest.MonkeyPatch.context() as patch:
        for name, original in ORIGINALS.items():
            made = observed(
                original, lambda name, result, *_: told.append((name, result)), print, sampling
            )
            made.__wrapped__ = original  # type: ignore[attr-defined]
            patch.setattr(functional, name, made)
        yield told


def test_every_function_is_there_and_takes_a_prediction_and_a_target() -> None:
    for name in FUNCTIONS:
        assert loss_calls._parameters(name)[:2] == ("input", "target")
        assert len(inspect.signature(ORIGINALS[name]).parameters) >= 2


def test_a_watched_process_has_functions_that_look_like_the_originals() -> None:
    with watched():
        for name, original in ORIGINALS.items():
            replaced = getattr(functional, name)
            assert replaced is not original
            assert (replaced.__name__, replaced.__qualname__, replaced.__doc__) == (
                original.__name__,
                original.__qualname__,
                original.__doc__,
            )
            assert replaced.__module__ == "torch.nn.functional"
            assert inspect.signature(replaced) == inspect.signature(original)
            assert inspect.getsource(replaced) == inspect.getsource(original)
            assert pickle.loads(pickle.dumps(replaced)) is replaced
    assert all(getattr(functional, name) is original for name, original in ORIGINALS.items())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_losses_can_be_scripted() -> None:
    x, y = batch()
    criteria = [nn.CrossEntropyLoss(), nn.MSELoss(), nn.BCEWithLogitsLoss(), nn.SmoothL1Loss()]
    with watched():
        scripted = [torch.jit.script(criterion) for criterion in criteria]
        assert scripted[0](x, y).item() == criteria[0](x, y).item()
        for criterion, script in zip(criteria[1:], scripted[1:], strict=True):
            assert script(x, x.abs()).item() == criterion(x, x.abs()).item()


def test_losses_compile_into_one_graph() -> None:
    x, y = batch()

    def loss(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(x, y) + functional.mse_loss(x, x + 1)

    with watched():
        torch._dynamo.reset()
        compiled = torch.compile(loss, backend="aot_eager", fullgraph=True)
        with torch.no_grad():
            assert compiled(x, y).item() == loss(x, y).item()
        x.requires_grad_()
        compiled(x, y).backward()
    assert x.grad is not None


def test_losses_can_be_traced_into_a_graph_of_modules() -> None:
    class WithLoss(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = classifier()

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return functional.cross_entropy(self.inner(x), y)

    model = WithLoss()
    plain = torch.fx.symbolic_trace(model)
    with watched():
        seen = torch.fx.symbolic_trace(model)
        x, y = batch()
        assert seen(x, y).item() == plain(x, y).item()
    assert [str(node) for node in seen.graph.nodes] == [str(node) for node in plain.graph.nodes]


def test_losses_inside_transformed_functions_are_left_alone() -> None:
    model = classifier()
    weight = torch.randn(6, 3)
    xs, ys = torch.randn(5, 4, 6), torch.zeros(5, 4, dtype=torch.long)

    def loss(weight: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(x @ weight, y)

    each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))
    plain = each(weight, xs, ys)
    with watched() as seen, torch.no_grad():
        model(xs[0])
        assert torch.equal(each(weight, xs, ys), plain)
    assert seen.scalars("loss") == []


def test_what_a_loss_raises_shows_no_frame_of_ours() -> None:
    with watched(), pytest.raises(ValueError, match="Expected input batch_size") as caught:
        functional.cross_entropy(torch.zeros(2, 3), torch.zeros(3, dtype=torch.long))
    files = [frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert not [file for file in files if "mothtrap/adapters" in file]


def test_every_call_that_returned_is_told_with_its_arguments(seen: Seen) -> None:
    x, y = batch()
    functional.cross_entropy(x, y)
    nn.L1Loss()(x, x)
    with pytest.raises(IndexError):
        functional.nll_loss(x, y + 100)
    assert [name for name, _ in seen] == ["cross_entropy", "l1_loss"]


def test_arguments_are_named_wherever_they_stand() -> None:
    x, y = batch()
    by_place = inputs_of("cross_entropy", (x, y, None, None, 2), {"reduction": "sum"})
    by_name = inputs_of("cross_entropy", (), {"input": x, "target": y})
    assert (by_place.prediction, by_place.target, by_place.reduction) == (x, y, "sum")
    assert by_place.given["ignore_index"] == 2
    assert (by_name.prediction, by_name.target, by_name.reduction) == (x, y, "mean")
    assert by_name.rows == len(x)
    assert by_name.has_hard_targets
    assert inputs_of("poisson_nll_loss", (x, x), {}).target is x
    assert not inputs_of("mse_loss", (x, x), {}).has_hard_targets


def test_lightened_inputs_have_shapes_and_at_most_the_values_of_targets() -> None:
    x, y = batch()
    inputs = inputs_of("cross_entropy", (x.requires_grad_(), y), {"reduction": "sum"})
    light, lighter = inputs.lightened(targets=True), inputs.lightened(targets=False)
    for one in (light, lighter):
        assert one.prediction is not None
        assert (one.prediction.shape, one.prediction.is_meta) == (x.shape, True)
        assert (one.rows, one.reduction, one.has_hard_targets) == (len(x), "sum", True)
    assert light.target is not None
    assert torch.equal(light.target, y)
    assert lighter.target is not None
    assert lighter.target.is_meta


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_the_loss_of_an_average_row_does_not_depend_on_the_reduction(reduction: str) -> None:
    x, y = batch(rows=6)
    y[0] = -100
    keywords = {"reduction": reduction}
    for name, args in (
        ("cross_entropy", (x[:, :3], y)),
        ("mse_loss", (x, torch.zeros_like(x))),
        ("binary_cross_entropy_with_logits", (x, x.sigmoid())),
    ):
        result = ORIGINALS[name](*args, **keywords)
        value = mean_of(result, inputs_of(name, args, keywords))
        rows = 6 if name != "cross_entropy" or reduction != "none" else 6 * 6 / 5
        expected = ORIGINALS[name](*args).item() * 6 / rows
        assert value.item() == pytest.approx(expected, rel=1e-5)


def test_losses_of_a_training_are_the_same_bits() -> None:
    torch.manual_seed(1)
    plain = train(model := classifier(), sgd(model))
    torch.manual_seed(1)
    with watched():
        seen = train(model := classifier(), sgd(model))
    assert seen == plain
