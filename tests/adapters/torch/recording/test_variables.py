"""Of the variables around a model's call, those that changed or are small are recorded."""

from __future__ import annotations

import random
import sys
from typing import Any

import numpy as np
import pytest
import torch

from mothtrap.adapters.torch.recording import variables
from mothtrap.adapters.torch.recording.generators import mark_of
from mothtrap.adapters.torch.recording.variables import (
    FEW_VALUES,
    LEFT_ALONE,
    MAX_MARKS,
    MAX_VALUES,
    SMALL_BYTES,
    ChangedVariables,
)
from mothtrap.tracing.source import frame_variables

LARGE = SMALL_BYTES  # number of elements: above the limit in bytes


def _names(watch: ChangedVariables) -> set[str]:
    return {name for name, _ in watch.of(sys._getframe(1))}


def test_plain_values_are_taken_once_they_have_changed() -> None:
    watch, seen = ChangedVariables(), []
    same, step, text, nothing = 3, 0, "a", None
    for step in range(3):
        if step == 2:
            text, nothing = "b", 1
        seen.append(_names(watch))
    assert "same" not in set.union(*seen)
    assert [bool(n & {"step"}) for n in seen] == [False, True, True]
    assert [bool(n & {"text"}) for n in seen] == [False, False, True]
    assert [bool(n & {"nothing"}) for n in seen] == [False, False, True]
    assert (same, text, nothing) == (3, "b", 1)


def test_a_value_of_another_type_is_another_value() -> None:
    watch = ChangedVariables()
    for flag in (1, True, 1.0):
        names = _names(watch)
        assert ("flag" in names) == (type(flag) is not int)


def test_large_tensors_are_taken_once_they_have_changed() -> None:
    watch = ChangedVariables()
    data, written, replaced = torch.zeros(LARGE), torch.zeros(LARGE), torch.zeros(LARGE)
    found = []
    for step in range(3):
        if step == 1:
            written[0] = 1
        if step == 2:
            replaced = torch.zeros(LARGE)
        found.append(_names(watch) & {"data", "written", "replaced"})
    assert found == [set(), {"written"}, {"written", "replaced"}]
    assert data.sum() == replaced.sum()


def test_small_tensors_are_always_taken() -> None:
    watch, small = ChangedVariables(), torch.zeros(3)
    assert [_names(watch) & {"small"} for _ in range(2)] == [{"small"}] * 2
    assert small is not None


def test_what_has_a_graph_and_models_are_left_out() -> None:
    watch, model = ChangedVariables(), torch.nn.Linear(2, 2)
    for step in range(2):
        loss = model(torch.ones(2)).sum() + step
        weight = model.weight
        assert not _names(watch) & {"model", "loss", "weight"}
        assert weight.shape != loss.shape


def test_of_a_list_of_losses_nothing_is_taken_until_it_holds_more() -> None:
    watch, found = ChangedVariables(), []
    losses: list[torch.Tensor] = []
    rewards: list[float] = []
    for step in range(3):
        found.append(_names(watch) & {"losses", "rewards"})
        losses.append((torch.ones(2, requires_grad=True) * step).sum())
        rewards.append(float(step))
    assert found == [set(), {"rewards"}, {"rewards"}]


def test_a_list_that_grows_is_taken_and_one_of_predictions_is_not() -> None:
    watch, found, weight = ChangedVariables(), [], torch.ones(2, requires_grad=True)
    predictions, states = [weight * 1], [torch.zeros(LARGE)]
    for step in range(3):
        found.append(_names(watch) & {"predictions", "states"})
        if step == 1:
            predictions.append(weight * 2)
            states.append(states[0])
        else:
            predictions[-1] = weight * step
    assert found == [set(), set(), {"states"}]


def test_containers_are_taken_once_something_in_them_has_changed() -> None:
    watch, found = ChangedVariables(), []
    same, counts = (torch.zeros(LARGE), {"a": 1}), {"seen": 0, "more": [1, (2,)]}
    history: list[float] = []
    for step in range(3):
        found.append(_names(watch) & {"same", "counts", "history"})
        counts["more"][1] = (step,)  # type: ignore[index]
        history += [float(step)] * MAX_VALUES
    # A history is as short as its baseline only at the beginning.
    assert found == [set(), {"counts", "history"}, {"counts"}]
    assert same[1] == {"a": 1}


def test_a_container_in_itself_is_looked_into_so_far_only() -> None:
    watch = ChangedVariables()
    loop: list[Any] = [1]
    loop.append(loop)
    for _ in range(2):
        assert "loop" not in _names(watch)


def test_arrays_and_generators_are_taken_once_they_have_changed() -> None:
    watch, found = ChangedVariables(), []
    array, own = np.zeros(LARGE), random.Random(0)
    numpy, framework = np.random.default_rng(0), torch.Generator()
    for step in range(3):
        found.append(_names(watch) & {"array", "own", "numpy", "framework"})
        if step == 0:
            array[0], _ = 1, torch.rand(1, generator=framework)
        own.random(), numpy.random()
    assert found == [set(), set(found[1]), set(found[1])]
    assert found[1] == {"array", "own", "numpy", "framework"}


class Hostile(dict[str, int]):
    """Raises on every access."""

    def __len__(self) -> int:
        raise RuntimeError("no")

    def items(self) -> Any:
        raise RuntimeError("no")


def test_objects_that_raise_are_left_out() -> None:
    watch, hostile = ChangedVariables(), Hostile()
    for step in range(2):
        assert _names(watch) & {"hostile", "step"} == ({"step"} if step else set())
    assert isinstance(hostile, Hostile)


def test_around_a_comprehension_the_function_is_looked_at_too() -> None:
    watch, outer = ChangedVariables(), torch.zeros(3)
    [found] = [{name for name, _ in watch.of(sys._getframe())} for _ in range(1)]
    assert "outer" in found
    assert outer is not None


def test_frames_that_cannot_be_read_are_told(monkeypatch: Any) -> None:
    def unread() -> set[str]:
        own = 1
        assert own
        return _names(watch)

    monkeypatch.setattr(frame_variables, "_locals_of", lambda frame: None)
    watch = ChangedVariables()
    assert unread() == set()
    assert list(watch.unread) == ["the variables of unread"]


class Trainer:
    """Keeps its data in attributes of its own."""

    def __init__(self) -> None:
        self.step, self.size = 0, 3
        self.model = torch.nn.Linear(2, 2)
        self.hidden = torch.zeros(LARGE)

    def train(self, watch: ChangedVariables) -> set[str]:
        self.step += 1
        names = _names(watch)
        self.hidden = self.hidden + 1
        return names


def test_attributes_of_the_object_whose_method_it_is_are_variables_too() -> None:
    watch, trainer = ChangedVariables(), Trainer()
    found = [
        trainer.train(watch) & {"self.step", "self.size", "self.model", "self.hidden"}
        for _ in range(3)
    ]
    assert found == [set(), {"self.step", "self.hidden"}, {"self.step", "self.hidden"}]


class Net(torch.nn.Module):
    """Calls another module from one of its own methods."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = 0

    def train_on(self, watch: ChangedVariables) -> set[str]:
        self.seen += 1
        return _names(watch)


def test_attributes_of_a_model_belong_to_its_state() -> None:
    watch, net = ChangedVariables(), Net()
    assert not any("self" in name for _ in range(2) for name in net.train_on(watch))


@pytest.mark.parametrize(
    "generator",
    [
        random.Random(0),
        np.random.RandomState(0),
        np.random.default_rng(0),
        *(np.random.Generator(kind(0)) for kind in (np.random.MT19937, np.random.Philox)),
        np.random.Generator(np.random.SFC64(0)),
        torch.Generator(),
    ],
    ids=lambda generator: type(getattr(generator, "bit_generator", generator)).__name__,
)
def test_every_draw_changes_the_mark_of_a_generator(generator: Any) -> None:
    def draw() -> None:
        if isinstance(generator, torch.Generator):
            torch.rand(1, generator=generator)
        elif isinstance(generator, random.Random):
            generator.gauss(0.0, 1.0)  # made in pairs: the second one is cached
        else:
            generator.normal()

    for _ in range(5):
        before = mark_of(generator)
        assert mark_of(generator) == before
        draw()
        assert mark_of(generator) != before


def test_marks_of_twisters_are_not_made_of_texts_or_many_objects(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Printing their 624 words, or putting them in a tuple, at every call takes a millisecond."""
    with np.printoptions(threshold=4):
        (state,) = mark_of(np.random.RandomState(0))
    assert len(state["state"]["key"]) == 624 * 4
    mark_of(random.Random(0))  # the first call compares the memory with `getstate`
    monkeypatch.setattr(random.Random, "getstate", None)
    (state,) = mark_of(random.Random(0))
    assert len(state) == 5


def test_a_variable_that_holds_too_much_is_left_alone_for_a_while_and_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked = []
    parts = variables._parts
    monkeypatch.setattr(variables, "_parts", lambda v: looked.append(len(v)) or parts(v))
    watch, table, small = ChangedVariables(), [[0] * 50 for _ in range(50)], [1]
    for _ in range(LEFT_ALONE):
        table[0][0] += 1
        small[0] += 1
        names = _names(watch)
    assert looked.count(50) <= MAX_MARKS // 50 + 2  # the table and some of its rows, each once
    assert "small" in names
    assert "table" not in names
    assert list(watch.unread) == ["the variable table: it is too large to compare"]
    _names(watch)
    assert looked.count(50) > MAX_MARKS // 50 + 2


def test_all_variables_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variables, "MAX_MARKS_TOGETHER", 100)
    watch = ChangedVariables()
    one, two, three = [0] * 60, [0] * 60, [0] * 30
    _names(watch)
    one[0] = two[0] = three[0] = 1
    assert _names(watch) >= {"one"}
    assert next(iter(watch.unread)).startswith("the variable two:")


def _draw_and_stack(watch: ChangedVariables, steps: range) -> list[set[str]]:
    found = []
    for step in steps:
        drawn = [torch.full((2,), step) for _ in range(FEW_VALUES + 1)]
        batch, short = torch.stack(drawn), drawn[:2]
        found.append(_names(watch) & {"drawn", "batch", "short"})
    return [*found, {str(batch), str(short)}]


def _draw_and_read_again(watch: ChangedVariables, steps: range) -> list[set[str]]:
    found = []
    for step in steps:
        drawn = [torch.full((2,), step) for _ in range(FEW_VALUES + 1)]
        found.append(_names(watch) & {"drawn"})
        found += [set()] if len(drawn) < step else []
    return found


def test_a_long_list_is_taken_only_if_the_code_reads_it_again() -> None:
    # Not in this function, because the asserts of pytest call `locals()`.
    assert _draw_and_stack(ChangedVariables(), range(3))[1:3] == [{"batch", "short"}] * 2
    assert _draw_and_read_again(ChangedVariables(), range(3))[1:] == [{"drawn"}] * 2
