"""Members of a collection, and contradictory settings."""

from __future__ import annotations

import re
from typing import get_args

import pytest

from mothtrap.core.collections import Collection, Statistic, complaint, kinds, matcher
from mothtrap.core.kinds import names, plurals
from mothtrap.core.schedule import Schedule
from mothtrap.core.steps import Mode
from mothtrap.core.tensors import TensorInfo
from mothtrap.statistics.summary import STATISTICS


def info(kind: str, name: str, module: str = "", module_type: str = "") -> TensorInfo:
    return TensorInfo(kind=kind, name=name, module=module, module_type=module_type)


TENSORS = (
    info("weight", "blocks.0.attn.q.weight", "blocks.0.attn.q", "Linear"),
    info("gradient", "blocks.0.attn.q.weight", "blocks.0.attn.q", "Linear"),
    info("gradient", "blocks.1.norm.weight", "blocks.1.norm", "LayerNorm"),
    info("activation", "blocks.1", "blocks.1", "Block"),
    info("bias", "head.bias", "head", "Linear"),
    info("optimizer_state", "Adam.parameters[0].exp_avg"),
)


def chosen(name: str = "mine", **fields: object) -> list[str]:
    collection = Collection(**fields)  # type: ignore[arg-type]
    assert complaint(name, collection) is None
    belongs = matcher(name, collection)
    found = [tensor for tensor in TENSORS if belongs(tensor)]
    assert {tensor.kind for tensor in found} <= set(kinds(name, collection))
    return [tensor.identity for tensor in found]


def test_every_kind_has_a_built_in_collection_of_its_own() -> None:
    assert set(plurals().values()) == set(names())
    for name, kind in plurals().items():
        assert kinds(name, Collection()) == (kind,)


def test_every_statistic_can_be_asked_for() -> None:
    assert set(get_args(Statistic)) == {*STATISTICS, "all", "exponents", "quantiles"}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"tensors": ("gradients",)}, ["blocks.0.attn.q.weight", "blocks.1.norm.weight"]),
        ({"tensors": ("gradients:blocks.0.*",)}, ["blocks.0.attn.q.weight"]),
        ({"tensors": ("gradient:blocks.0.*",)}, ["blocks.0.attn.q.weight"]),
        ({"tensors": ("gradients",), "module_types": ("LayerNorm",)}, ["blocks.1.norm.weight"]),
        ({"tensors": ("*",), "modules": ("blocks.1*",)}, ["blocks.1.norm.weight", "blocks.1"]),
        ({"tensors": (r"re:gradient:.*\.norm",)}, ["blocks.1.norm.weight"]),
        ({"tensors": ("re:head|norm",)}, ["blocks.1.norm.weight", "head.bias"]),
        ({"tensors": ("biases", "activations:*.1")}, ["blocks.1", "head.bias"]),
        ({"modules": ("head",)}, ["head.bias"]),
        (
            {"module_types": ("Linear",)},
            ["blocks.0.attn.q.weight", "blocks.0.attn.q.weight", "head.bias"],
        ),
        (
            {"tensors": ("optimizer_state:Adam.parameters[0].exp_avg",)},
            ["Adam.parameters[0].exp_avg"],
        ),
        ({"tensors": ("optimizer_state:Adam.parameters[0].*",)}, ["Adam.parameters[0].exp_avg"]),
        (
            {"tensors": ("optimizer_state:Adam.parameter[st][[]0]*",)},
            ["Adam.parameters[0].exp_avg"],
        ),
        ({"tensors": ("*:head.bias",)}, ["head.bias"]),
    ],
)
def test_tensors_are_chosen_by_pattern_module_and_type(
    fields: dict[str, object], expected: list[str]
) -> None:
    assert [identity.partition(":")[2] for identity in chosen(**fields)] == expected


def test_a_collection_called_as_a_built_in_one_is_that_one() -> None:
    assert chosen("biases", every=5) == ["bias:head.bias"]
    assert chosen("biases", tensors=("weights",)) == ["weight:blocks.0.attn.q.weight"]


@pytest.mark.parametrize(
    ("name", "fields", "words"),
    [
        ("gradiens", {}, "tensors is missing: .* (did you mean 'gradients'?)"),
        ("a", {"tensors": ("gradiens",)}, "tensors: 'gradiens' is not a built-in .*'gradients'"),
        ("a", {"tensors": ("head",)}, "for names write '*:head'"),
        (
            "a",
            {"tensors": ("loss",)},
            "'loss' is not a built-in .*(did you mean 'losses'?); for names",
        ),
        ("a", {"tensors": ("weigth",)}, "'weigth' is not a built-in .*(did you mean 'weights'?)"),
        (
            "a",
            {"tensors": ("gradiens:x",)},
            "'gradiens:x' has an unknown kind (did you mean 'gradients'",
        ),
        ("a", {"tensors": ("re:(",)}, "'re:(' is not a valid regular expression"),
        ("weights", {"shape_only": True, "raw": True}, "shape_only cannot be combined with raw"),
        ("weights", {"statistics": ()}, "statistics is empty"),
        ("weights", {"modes": ()}, "modes is empty"),
        ("weights", {"for_steps": 0}, "for_steps must be 1 step or more"),
        ("weights", {"budget_mb": 0.0}, "budget_mb must be more than 0"),
        ("weights", {"eval": Schedule(every=0)}, "eval.every must be 1 step or more"),
        ("weights", {"reductions": {"p99": "np"}}, "reductions.p99 must be a function"),
        ("weights", {"every": 0}, "every must be"),
        ("weights", {"reductions": {"": max}}, "reductions has a function without a name"),
        ("weights", {"reductions": {"loss": max}}, "reductions.loss: mothtrap already measures"),
    ],
)
def test_what_makes_no_sense_is_said(name: str, fields: dict[str, object], words: str) -> None:
    found = complaint(name, Collection(**fields))  # type: ignore[arg-type]
    assert found is not None
    assert re.search(re.escape(words).replace(r"\.\*", ".*").replace(r"\ ", " "), found)


def test_the_statistics_are_all_unless_something_else_is_asked_for() -> None:
    assert Collection().numbers == ("all",)
    assert Collection(raw=True).numbers == ()
    assert Collection(raw=True, statistics=("l2",)).numbers == ("l2",)
    assert Collection(reductions={"p99": max}).numbers == ()


def test_a_mode_may_have_a_schedule_of_its_own() -> None:
    collection = Collection(every=7, eval=Schedule(every=2), modes=("train", "predict"))
    assert [collection.schedule(mode) for mode in (Mode.TRAIN, Mode.EVAL, Mode.PREDICT)] == [
        collection,
        Schedule(every=2),
        collection,
    ]
    assert Collection().schedule(Mode.EVAL) is None


@pytest.mark.parametrize(
    ("name", "fields", "found"),
    [
        ("inputs", {}, ["Net.0"]),
        ("mine", {"tensors": ("input:*",)}, ["Net.0", "attn.0"]),
        ("mine", {"tensors": ("*",)}, ["Net.0", "attn.0"]),
        ("mine", {"tensors": ("inputs",)}, ["Net.0"]),
        ("mine", {"tensors": ("input:attn.*",)}, ["attn.0"]),
        ("mine", {"tensors": ("inputs",), "modules": ("at*",)}, ["attn.0"]),
        ("mine", {"tensors": ("inputs",), "module_types": ("Net",)}, ["Net.0"]),
    ],
)
def test_the_built_in_inputs_alone_are_of_whole_models(
    name: str, fields: dict[str, object], found: list[str]
) -> None:
    belongs = matcher(name, Collection(**fields))  # type: ignore[arg-type]
    inputs = (
        TensorInfo(kind="input", name="Net.0", module="Net", module_type="Net", of_root=True),
        TensorInfo(kind="input", name="attn.0", module="attn", module_type="Attention"),
    )
    assert [tensor.name for tensor in inputs if belongs(tensor)] == found
