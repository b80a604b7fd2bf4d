"""Selection of captures from the needs of rules and the requests of the user."""

from __future__ import annotations

from typing import Any

import pytest

from mothtrap.capture.governor import Priority
from mothtrap.capture.selection import (
    DENSE_STEPS,
    RAW,
    SHAPE,
    TABLE,
    Selection,
    Stream,
    of_collection,
    streams,
)
from mothtrap.core.config import Collection, Config
from mothtrap.core.kinds import usual
from mothtrap.core.needs import Need
from mothtrap.core.schedule import Schedule
from mothtrap.core.steps import Mode
from mothtrap.core.tensors import TensorInfo

NORMS = Need(kinds=("gradient",), statistics=("l2", "nan", "inf"))
UNITS = Need(kinds=("activation",), statistics=("inactive",), roles=("rectifier",), every=16)
GRADIENT = TensorInfo(kind="gradient", name="blocks.0.weight")
RELU = TensorInfo(kind="activation", name="blocks.1", role="rectifier")
LINEAR = TensorInfo(kind="activation", name="blocks.0")


def wanted(found: tuple[Stream, ...], info: TensorInfo) -> frozenset[str]:
    """Return the statistics of a tensor when every stream is active."""
    selection = Selection(found)
    selection.define(0, info)
    return selection.statistics(0, frozenset(stream.name for stream in found))


def is_due(stream: Stream, mode: Mode, step: int) -> bool:
    """Return whether a stream is due at a step of a mode."""
    return mode in stream.schedules and stream.schedules[mode].is_due(step)


def test_no_rule_no_capture() -> None:
    assert streams(Config(), []) == ()
    assert not Selection(()).define(0, GRADIENT)


def test_capture_off_wins_over_rules_and_collections() -> None:
    everything = {"mine": Collection(tensors=("*",))}
    assert streams(Config(capture="off", collections=everything), [NORMS, UNITS]) == ()


def test_needs_are_joined() -> None:
    mean = Need(kinds=("gradient",), statistics=("mean",))
    found = streams(Config(), [NORMS, mean, NORMS])
    assert len(found) == 2
    assert wanted(found, GRADIENT) == {"l2", "nan", "inf", "mean"}


def test_a_need_is_of_its_kinds_and_roles_alone() -> None:
    found = streams(Config(), [UNITS])
    assert wanted(found, RELU) == {"inactive"}
    assert not Selection(found).define(0, LINEAR)
    assert not Selection(found).define(0, GRADIENT)


def test_only_the_non_finite_checks_of_gradients_are_never_thinned() -> None:
    histograms = Need(kinds=("gradient",), statistics=("l2", "mean"))
    outputs = Need(kinds=("activation",), statistics=("nan",))
    found = streams(Config(), [NORMS, histograms, outputs])
    assert [stream.essential for stream in found] == [True, False, False]


def test_a_few_steps_that_are_named_are_never_thinned_either() -> None:
    def of(schedule: Schedule) -> bool:
        need = Need(kinds=("weight",), statistics=("l2",), schedule=schedule)
        return streams(Config(), [need])[0].essential

    assert of(Schedule(steps=(0, 1, 2)))
    assert not of(Schedule(steps=(0, 1, 2), every=64))
    assert not of(Schedule(steps=tuple(range(9))))
    assert not of(Schedule(logarithmic=True))
    assert not of(Schedule(start=5))


def test_everything_is_the_whole_table_at_every_step_in_both_modes() -> None:
    found = streams(Config(capture="everything"), [])
    assert wanted(found, LINEAR) == TABLE
    assert {kind for stream in found for kind in stream.kinds} == set(usual())
    assert all(
        is_due(found[0], mode, step) for mode in (Mode.TRAIN, Mode.EVAL) for step in range(99)
    )


def test_a_collection_is_a_glob_over_kind_and_name() -> None:
    chosen = Collection(tensors=("gradient:blocks.0.*", "activation:head"), every=50)
    found = streams(Config(collections={"first": chosen}), [])
    selection = Selection(found)
    assert selection.define(0, GRADIENT)
    assert selection.define(1, TensorInfo(kind="activation", name="head"))
    assert not selection.define(2, TensorInfo(kind="weight", name="blocks.0.weight"))
    assert not selection.define(3, TensorInfo(kind="gradient", name="blocks.10.weight"))
    assert wanted(found, GRADIENT) == TABLE


@pytest.mark.parametrize("every", [1, 16])
def test_every_stream_is_due_at_the_start_and_then_by_its_cadence(every: int) -> None:
    (stream,) = streams(Config(), [Need(kinds=("weight",), statistics=("l2",), every=every)])
    due = [step for step in range(64) if is_due(stream, Mode.TRAIN, step)]
    dense = range(DENSE_STEPS)
    assert due == sorted({*dense, *range(0, 64, every)})
    assert not is_due(stream, Mode.EVAL, 0)


def test_a_need_may_be_of_evaluations_and_name_its_own_steps() -> None:
    first = Schedule(steps=(0, 1), every=50)
    needs = [
        Need(kinds=("input",), statistics=("mean",), modes=(Mode.EVAL, Mode.TRAIN), schedule=first),
        Need(kinds=("input",), statistics=("mean",), schedule=Schedule(logarithmic=True)),
    ]
    both, train = streams(Config(), needs)
    assert [step for step in range(99) if is_due(both, Mode.EVAL, step)] == [0, 1, 50]
    assert [step for step in range(99) if is_due(both, Mode.TRAIN, step)] == [0, 1, 50]
    assert [step for step in range(32) if is_due(train, Mode.TRAIN, step)] == [*range(11), 20, 30]
    assert not is_due(train, Mode.EVAL, 0)
    assert both.name == "mean of inputs in eval and train, every 50, steps (0, 1)"


def test_a_need_may_be_of_whole_models_alone() -> None:
    found = streams(Config(), [Need(kinds=("input",), statistics=("mean",), of_root=True)])
    given = TensorInfo(kind="input", name="Model.0", of_root=True)
    assert wanted(found, given) == {"mean"}
    assert not Selection(found).define(0, TensorInfo(kind="input", name="encoder.0"))


def test_a_need_may_be_of_tensors_that_are_named() -> None:
    named = Need(kinds=("gradient",), statistics=("zero",), tensors=("gradients:blocks.*",))
    found = streams(Config(), [named, Need(kinds=("gradient",), statistics=("mean",))])
    head = TensorInfo(kind="gradient", name="head.weight")
    assert wanted(found, GRADIENT) == {"zero", "mean"}
    assert wanted(found, head) == {"mean"}
    assert len({stream.name for stream in found}) == 2


def test_only_active_streams_count() -> None:
    found = streams(Config(), [NORMS, Need(kinds=("gradient",), statistics=("mean",))])
    selection = Selection(found)
    selection.define(0, GRADIENT)
    assert selection.statistics(0, frozenset({found[1].name})) == {"mean"}
    assert selection.statistics(0, frozenset()) == frozenset()


def by_name(name: str, collection: Collection) -> dict[str, frozenset[str]]:
    return {stream.name: stream.statistics for stream in of_collection(name, collection)}


def test_the_copies_of_a_collection_are_a_stream_of_their_own() -> None:
    collection = Collection(
        raw=True, statistics=("l2", "quantiles"), reductions={"n": len}, budget_mb=1.0
    )
    assert by_name("weights", collection) == {
        "collection weights": {"l2"},
        "copies of collection weights": {RAW, "quantiles", "weights.n"},
    }
    numbers, copies = of_collection("weights", collection)
    assert (numbers.copies, copies.copies) == (False, True)
    assert copies.reductions == {"weights.n": len}
    assert copies.budget_bytes == 2**20
    assert by_name("weights", Collection()) == {"collection weights": TABLE}
    assert by_name("weights", Collection(shape_only=True)) == {
        "collection weights": {"count", SHAPE}
    }


@pytest.mark.parametrize(
    ("fields", "steps"),
    [
        ({}, [0, 16, 32]),
        ({"start": 3, "stop": 30}, [3, 19]),
        ({"every": 1}, list(range(33))),
        ({"steps": (5, 7)}, [5, 7]),
        ({"logarithmic": True, "start": 1}, [*range(1, 11), 11, 21, 31]),
    ],
)
def test_what_takes_a_look_of_its_own_is_rare_unless_it_is_said_when(
    fields: dict[str, Any], steps: list[int]
) -> None:
    asked = Collection(
        statistics=("l2", "exponents", "inactive"), modes=("train", "eval"), **fields
    )
    numbers, rare = of_collection("gradients", asked)
    assert (numbers.name, numbers.statistics) == ("collection gradients", {"l2"})
    assert rare.name == "exponents, inactive of collection gradients"
    assert rare.statistics == {"exponents", "inactive", "zero", "nan"}
    assert not rare.copies
    for mode in (Mode.TRAIN, Mode.EVAL):
        assert [step for step in range(33) if is_due(rare, mode, step)] == steps


def test_a_collection_asks_for_its_own_kinds_alone() -> None:
    found = of_collection("mine", Collection(tensors=("updates:head.*", "losses")))
    assert {kind for stream in found for kind in stream.kinds} == {"loss", "update"}
    for stream in found:
        assert stream.matches(TensorInfo(kind="update", name="head.weight"))
        assert not stream.matches(TensorInfo(kind="update", name="body.weight"))


def test_numbers_of_kinds_of_several_priorities_are_thinned_apart_and_copies_together() -> None:
    mine = Collection(tensors=("*",), statistics=("l2",), raw=True, overhead=0.01)
    found = of_collection("mine", mine)
    assert [(stream.name, stream.priority) for stream in found] == [
        (
            "collection mine: weights, biases, updates, optimizer state, buffers, leaves",
            Priority.WEIGHTS,
        ),
        ("collection mine: gradients, losses, metrics", Priority.GRADIENTS),
        (
            "collection mine: activations, activation gradients, inputs, labels, outputs",
            Priority.ACTIVATIONS,
        ),
        ("copies of collection mine", Priority.COPIES),
    ]
    kinds = [kind for stream in found[:-1] for kind in stream.kinds]
    assert sorted(kinds) == sorted(found[-1].kinds) == sorted(set(kinds))


def test_what_is_never_thinned_is_not_split() -> None:
    waiting = of_collection("mine", Collection(tensors=("*",), statistics=("l2",), on=("NUM",)))
    assert [stream.name for stream in waiting] == ["collection mine"]


def test_a_collection_is_thinned_only_where_it_has_an_overhead_of_its_own() -> None:
    for on in ((), ("NUM",)):
        (kept,) = of_collection("weights", Collection(raw=True, on=on))
        assert kept.essential
        assert kept.is_asked
        assert not kept.in_light_steps
        (thinned,) = of_collection("weights", Collection(raw=True, on=on, overhead=0.1))
        assert not thinned.essential
        assert thinned.overhead == 0.1


def test_what_waits_for_a_finding_is_called_by_its_code() -> None:
    waiting = of_collection("weights", Collection(raw=True, on=("NUM",)))
    assert [s.is_called_by(code) for s in waiting for code in ("NUM004", "GRD101")] == [True, False]


def test_other_streams_come_into_force_for_tensors_that_are_known() -> None:
    selection = Selection(())
    assert not selection.define(0, GRADIENT)
    assert not selection.define(1, LINEAR)
    assert selection.change(of_collection("gradients", Collection(raw=True))) == [0]
    assert selection.statistics(0, frozenset({"copies of collection gradients"})) == {RAW}
    assert selection.change(()) == []
    assert selection.statistics(0, frozenset({"copies of collection gradients"})) == frozenset()


def test_what_a_rule_of_the_user_needs_is_never_thinned() -> None:
    [ours] = streams(Config(), [UNITS])
    [own] = streams(Config(), [UNITS], [UNITS])
    assert (ours.essential, ours.by_user, ours.is_asked) == (False, False, False)
    assert (own.essential, own.by_user, own.is_asked) == (True, True, True)
    assert own.collection == ""
    assert streams(Config(capture="off"), [], [UNITS]) == ()
