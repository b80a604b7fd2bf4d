from __future__ import annotations

import copy
import gc
import inspect
import weakref
from collections.abc import Callable

import pytest
import torch
from tests.adapters.torch.watched import batch, classifier, sgd, train, watched
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.func import functional_call, grad

from mothtrap.adapters.torch.job.naming import (
    NameBook,
    class_location,
    class_name,
    role,
    strip_wrappers,
    unseen_inside,
    unwrapped,
)
from mothtrap.tracing.source import frames


class Pair(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Linear(6, 4)
        self.decoder = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.decoder(self.encoder(x))


class Wrapped(nn.Module):
    """Holds a model as DistributedDataParallel does."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.module(x)


def line_of(text: str) -> str:
    """`file:line` of the last line of this file that contains a text."""
    lines, _ = inspect.findsource(line_of)
    number = max(n for n, line in enumerate(lines, 1) if text in line and "line_of" not in line)
    return frames._place(__file__, number)


@pytest.mark.parametrize(
    ("name", "stripped"),
    [
        ("module.0.weight", "0.weight"),
        ("_orig_mod.0.weight", "0.weight"),
        ("module._orig_mod.head", "head"),
        ("blocks.0._checkpoint_wrapped_module.fc.weight", "blocks.0.fc.weight"),
        ("features.module.weight", "features.module.weight"),
        ("", ""),
    ],
)
def test_wrappers_leave_no_trace_in_names(name: str, stripped: str) -> None:
    assert strip_wrappers(name) == stripped


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        (nn.ReLU(), "rectifier"),
        (nn.ReLU6(), "rectifier"),
        (nn.Tanh(), "saturating"),
        (nn.GELU(), ""),
        (nn.LeakyReLU(), ""),
    ],
)
def test_roles_are_those_that_rules_ask_for(module: nn.Module, expected: str) -> None:
    assert role(type(module).__name__) == expected


def test_names_are_those_of_torch_for_the_first_root() -> None:
    book, model = NameBook(), Pair()
    root = book.add_root(model)
    assert root is not None
    assert root.label == "Pair"
    assert book.module_name(model) == "Pair"
    assert book.module_name(model.encoder) == "encoder"
    assert book.parameter_name(model.decoder.bias) == ("decoder.bias", "decoder")
    assert book.root_of(model.encoder) is root
    assert book.module_called("encoder") is model.encoder
    assert book.module_called("nowhere") is None


def test_parameters_of_a_root_itself_have_no_path() -> None:
    book, layer = NameBook(), nn.Linear(2, 2)
    book.add_root(layer)
    assert book.parameter_name(layer.weight) == ("weight", "Linear")


def test_further_roots_are_told_apart_by_class_and_number() -> None:
    book = NameBook()
    models = [Pair(), Pair(), nn.Linear(2, 2), Pair()]
    for model in models:
        book.add_root(model)
    assert [book.module_name(model) for model in models] == ["Pair", "Pair#1", "Linear", "Pair#2"]
    assert book.parameter_name(models[1].encoder.bias) == ("Pair#1.encoder.bias", "Pair#1.encoder")
    assert book.parameter_name(models[2].bias) == ("Linear.bias", "Linear")


def test_a_module_without_parameters_is_no_root() -> None:
    assert NameBook().add_root(nn.CrossEntropyLoss()) is None


def test_a_part_or_the_same_module_again_is_no_further_root() -> None:
    book, model = NameBook(), Pair()
    root = book.add_root(model)
    assert book.add_root(model) is root
    assert book.add_root(model.encoder) is root
    assert len(book.roots) == 1


def test_a_model_in_a_wrapper_keeps_its_names() -> None:
    book, model = NameBook(), Wrapped(Pair())
    book.add_root(model)
    assert book.parameter_name(model.module.encoder.weight) == ("encoder.weight", "encoder")


def test_a_model_that_was_first_called_with_other_parameters_keeps_its_names() -> None:
    """Such as those of a teacher, or under `torch.func.grad`, while its own are not in place."""
    model = classifier()
    teacher = {name: p.detach().clone() for name, p in model.named_parameters()}

    def loss(given: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        return functional_call(model, given, (x,)).pow(2).mean()

    with watched() as seen:
        optimizer = sgd(model)
        for _ in range(4):
            x, y = batch()
            grad(loss)(teacher, x)
            optimizer.zero_grad()
            target = functional_call(model, teacher, (x,))
            logits = model(x)
            (nn.functional.cross_entropy(logits, y) + (logits - target).pow(2).mean()).backward()
            optimizer.step()
    assert seen.names("gradient") == ["0.weight", "0.bias", "2.weight", "2.bias"]


def test_a_compiled_model_keeps_its_names() -> None:
    book, model = NameBook(), Pair()
    book.add_root(torch.compile(model, backend="eager"))
    assert book.parameter_name(model.encoder.weight) == ("encoder.weight", "encoder")


def test_tied_weights_bear_the_name_that_torch_gives_them() -> None:
    book, model = NameBook(), nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 5, bias=False))
    model[1].weight = model[0].weight
    book.add_root(model)
    [(name, _)] = model.named_parameters()
    assert book.parameter_name(model[1].weight) == (name, "0")


def test_names_of_a_model_that_grew_are_found_by_refreshing() -> None:
    book, model = NameBook(), Pair()
    book.add_root(model)
    model.decoder = nn.Linear(4, 7)
    assert book.parameter_name(model.decoder.weight) is None
    book.refresh()
    assert book.parameter_name(model.decoder.weight) == ("decoder.weight", "decoder")


def test_a_part_that_is_called_first_bears_the_name_in_its_model() -> None:
    with watched() as seen:
        model = Pair()
        optimizer = sgd(model)
        for _ in range(2):
            loss = nn.functional.cross_entropy(model.decoder(model.encoder(batch()[0])), batch()[1])
            loss.backward()
            optimizer.step()
    assert set(seen.names("activation")) == {"encoder", "decoder"}
    assert "encoder.weight" in seen.names("gradient")


def test_bare_tensors_go_by_their_optimizer_and_place() -> None:
    first, second = (torch.ones(3, requires_grad=True) for _ in range(2))
    with watched() as seen:
        optimizer = torch.optim.SGD([first, second], lr=0.1)
        (first * second).sum().backward()
        optimizer.step()
    assert seen.names("gradient") == ["SGD.parameters[0]", "SGD.parameters[1]"]


def test_modules_know_the_line_that_asked_for_them() -> None:
    with watched() as seen:
        model = Pair()  # the whole model
        plain = nn.Linear(2, 2)  # a layer of the script
    book = seen.tracer.book
    assert book.location(model.encoder) == line_of("self.encoder = nn.Linear(6, 4)")
    assert book.location(plain) == line_of("# a layer of the script")
    assert book.location(model) == line_of("model = Pair()  # the whole")


def test_the_line_of_a_subclass_is_where_it_was_made_and_not_its_init() -> None:
    class Small(nn.Linear):
        def __init__(self) -> None:
            super().__init__(2, 2)

    with watched() as seen:
        layer = Small()  # made here
    assert seen.tracer.book.location(layer) == line_of("# made here")


def test_modules_are_numbered_in_order_of_construction() -> None:
    with watched() as seen:
        first, second = nn.ReLU(), nn.ReLU()
    book = seen.tracer.book
    assert (book.birth(first), book.birth(second), book.births) == (1, 2, 2)


def test_a_copy_has_no_line_of_its_own_but_that_of_its_class() -> None:
    with watched() as seen:
        layer, model = nn.Linear(2, 2), Pair()
        copies = copy.deepcopy(layer), copy.deepcopy(model)
    book = seen.tracer.book
    assert book.location(copies[0]) is None
    assert book.location(copies[1]) == line_of("class Pair(nn.Module)")
    assert book.birth(copies[0]) is None


def test_classes_of_torch_have_no_line() -> None:
    assert class_location(nn.Linear) is None


def test_models_that_are_gone_are_forgotten() -> None:
    with watched() as seen:
        for _ in range(50):
            nn.Sequential(nn.Linear(2, 2), nn.ReLU())
        model = classifier()
        train(model, sgd(model))
        gone = weakref.ref(model)
        del model
        gc.collect()
        book = seen.tracer.book
        assert (len(book._births), len(book._modules), len(book.parameters)) == (0, 0, 0)
        assert book.roots == []
        assert gone() is None


def test_a_further_root_keeps_its_prefix_when_the_first_is_gone() -> None:
    book = NameBook()
    book.add_root(Pair())
    gc.collect()
    model = Pair()
    book.add_root(model)
    assert book.module_name(model) == "Pair#1"


@pytest.mark.parametrize(
    "wrap",
    [
        nn.DataParallel,
        lambda model: torch.compile(model, backend="eager"),
        lambda model: nn.DataParallel(torch.compile(model, backend="eager")),
        checkpoint_wrapper,
    ],
)
def test_a_wrapper_has_the_name_of_what_it_wraps(wrap: Callable[[nn.Module], nn.Module]) -> None:
    book, model = NameBook(), Pair()
    shell = wrap(model)
    root = book.add_root(shell)
    assert root is not None
    assert root.label == class_name(shell) == "Pair"
    assert book.module_name(shell) == book.module_name(model) == "Pair"
    assert book.module_name(model.encoder) == "encoder"
    assert book.is_whole(shell)
    assert book.is_whole(model)
    assert not book.is_whole(model.encoder)
    assert not book.is_whole(nn.ReLU())


def test_a_wrapper_put_around_a_root_joins_it_as_long_as_it_lives() -> None:
    book, model = NameBook(), Pair()
    root = book.add_root(model)
    assert root is not None
    seen = book.roots_seen
    shell = nn.DataParallel(model)
    assert book.add_root(shell) is root
    assert root.module() is shell
    assert book.roots_seen > seen
    assert len(book.roots) == 1
    del shell
    gc.collect()
    assert root.module() is model
    assert len(book.roots) == 1


def test_a_wrapper_around_a_part_of_a_root_is_a_root() -> None:
    book, model = NameBook(), Pair()
    book.add_root(model)
    shell = nn.DataParallel(model.encoder)
    root = book.add_root(shell)
    assert root is not None
    assert book.module_name(shell) == root.path == "Linear"
    assert book.module_name(model.encoder) == "encoder"


def test_what_hides_its_parts_says_why() -> None:
    shell = nn.DataParallel(Pair())
    assert unseen_inside(shell) is None
    shell.device_ids = [0, 1]
    assert "2 devices" in str(unseen_inside(shell))
    assert "torch.compile" in str(unseen_inside(torch.compile(Pair(), backend="eager")))


def test_a_module_that_has_no_length_is_unwrapped() -> None:
    class NoLength(nn.Module):
        def __len__(self) -> int:
            raise TypeError("none is known")

    part, empty = NoLength(), nn.Sequential()
    assert unwrapped(part) is part
    assert unwrapped(nn.DataParallel(part)) is part
    assert unwrapped(nn.DataParallel(torch.compile(empty, backend="eager"))) is empty
