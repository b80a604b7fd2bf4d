from __future__ import annotations

from pathlib import Path

import pytest
from tests.reader.runs import evaluation, info, write_worker
from tests.store.records import record

from mothtrap.core.errors import ConfigError, UnknownNameError
from mothtrap.core.steps import Mode
from mothtrap.core.tensors import TensorInfo
from mothtrap.reader.run import Run, open_run
from mothtrap.store import layout

TENSORS = (
    TensorInfo(kind="gradient", name="blocks.0.attn.weight", module="blocks.0.attn"),
    TensorInfo(kind="weight", name="blocks.0.attn.weight", module="blocks.0.attn"),
    TensorInfo(kind="bias", name="blocks.1.attn.bias", module="blocks.1.attn"),
    TensorInfo(kind="activation", name="head[0]", module="head", module_type="Linear"),
)


def a_run(folder: Path, **config: object) -> Run:
    attempt = layout.create_run(folder / "x", info(config=config))
    defined = tuple(enumerate(TENSORS))
    write_worker(
        attempt,
        record(0, defined=defined, tensors=2),
        evaluation(1, 0, tensors=4),
        record(1, tensors=3),
    )
    return open_run(folder / "x")


def names(run: Run, *choice: object, **more: object) -> list[str]:
    return [tensor.identity for tensor in run.tensors(*choice, **more)]  # type: ignore[arg-type]


ALL = [tensor.identity for tensor in TENSORS]


def test_tensors_are_chosen_by_name_module_kind_and_pattern(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    assert names(run) == ALL
    assert names(run, "blocks.0.*") == ALL[:2]
    assert names(run, "blocks.0.attn") == ALL[:2]
    assert names(run, "head[0]") == ALL[3:]
    assert names(run, "gradient:blocks.*") == ALL[:1]
    assert names(run, "gradients:*") == ALL[:1]
    assert names(run, "gradients") == ALL[:1]
    assert names(run, "*:*.weight") == ALL[:2]
    assert names(run, r"re:^(weight|bias):.*attn") == ALL[1:3]
    assert names(run, kind="bias") == ALL[2:3]
    assert names(run, "blocks.*", kind="weight") == ALL[1:2]
    assert names(run, "nothing") == []


def test_a_kind_may_be_named_by_its_collection_and_a_wrong_one_is_told(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    assert names(run, kind="gradients") == names(run, kind="gradient") == ALL[:1]
    assert run.stats("gradients", "*", "l2").keys() == run.stats("gradient").keys() == {"l2"}
    with pytest.raises(UnknownNameError, match=r"did you mean 'gradient:blocks.0.attn.weight'"):
        run.tensor("gradiant:blocks.0.attn.weight")


def test_names_may_hold_colons(tmp_path: Path) -> None:
    attempt = layout.create_run(tmp_path / "y", info())
    named = ("exponents(gradient:head.weight)", "conv0/weight:0")
    infos = [TensorInfo(kind="metric", name=name) for name in named]
    write_worker(attempt, record(0, defined=tuple(enumerate(infos)), tensors=0))
    run = open_run(tmp_path / "y")
    assert run.tensor(named[0]).name == named[0]
    assert names(run, named[0]) == ["metric:" + named[0]]
    assert names(run, "exponents(*:head.*)") == ["metric:" + named[0]]
    assert names(run, "metrics:*weight:0") == ["metric:" + named[1]]
    assert names(run, named[1]) == ["metric:" + named[1]]


def test_tensors_are_chosen_by_step_mode_and_worker(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    write_worker(run.path / "1", record(0, defined=((5, TENSORS[2]),), tensors=0))
    run.refresh()
    assert names(run, step=0) == ALL[:2]
    assert names(run, step=1) == ALL
    assert names(run, step=1, mode=Mode.TRAIN) == ALL[:3]
    assert names(run, mode=Mode.EVAL) == ALL
    assert names(run, mode=Mode.PREDICT) == []
    assert names(run, worker=1) == ALL[2:3]
    assert names(run, worker=1, step=0) == []
    assert names(run.range(0, 1), step=1) == []
    with pytest.raises(UnknownNameError, match="there is no worker 2; this run has: 0, 1"):
        run.tensors(worker=2)


def test_tensors_are_chosen_by_collection(tmp_path: Path) -> None:
    own = {"attention": {"tensors": ["weights:*attn*"], "every": 5}, "broken": {"tensors": 3}}
    run = a_run(tmp_path, collections=own)
    assert names(run, collection="attention") == ALL[1:2]
    assert names(run, collection="biases") == ALL[2:3]
    assert names(run, "blocks.1.*", collection="attention") == []
    with pytest.raises(UnknownNameError, match=r"did you mean 'attention'.*has: attention"):
        run.tensors(collection="attenton")
    with pytest.raises(ConfigError, match="'broken' of this run cannot be read"):
        run.tensors(collection="broken")


def test_one_tensor_is_a_weight_before_its_gradient(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    assert run.tensor("blocks.0.attn.weight").kind == "weight"
    assert run.tensor("gradient:blocks.0.attn.weight").kind == "gradient"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("blocks.0.attn.wieght", "did you mean 'blocks.0.attn.weight'"),
        ("gradient:blocks.0.atn.weight", "did you mean 'gradient:blocks.0.attn.weight'"),
        ("zzz", "the run has 4 tensors"),
    ],
)
def test_a_wrong_name_names_the_nearest(tmp_path: Path, name: str, hint: str) -> None:
    with pytest.raises(UnknownNameError, match=hint):
        a_run(tmp_path).tensor(name)


@pytest.mark.parametrize(
    ("pattern", "complaint"),
    [
        ("re:(", "not a valid regular expression"),
        ("gradiant:*", "no kind 'gradiant' of tensors.*did you mean 'gradient'"),
    ],
)
def test_a_wrong_pattern_is_named(tmp_path: Path, pattern: str, complaint: str) -> None:
    with pytest.raises(UnknownNameError, match=complaint):
        a_run(tmp_path).tensors(pattern)
