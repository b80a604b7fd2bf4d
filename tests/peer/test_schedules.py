"""Schedules and collections mean the same wherever they are written."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
import torch
from tests.peer.trainings import UNJUDGED, trained
from torch import nn

from mothtrap import Collection, Run, Schedule, Watch
from mothtrap.core.config import load_config
from mothtrap.core.errors import ConfigError

STEPS = 20


def captured(folder: Path, mode: str = "train", **fields: object) -> list[int]:
    """Return the steps of a mode at which a collection captured weights, of 20."""

    def each(step: int, model: nn.Module, dbg: Watch) -> None:
        with torch.no_grad():
            model(torch.randn(2, 4))

    collection = Collection(tensors=("activations:2",), **fields)  # type: ignore[arg-type]
    run = trained(folder, STEPS, each, collections={"mine": collection}, **UNJUDGED)
    if "activation:2" not in {tensor.identity for tensor in run.tensors()}:
        return []
    tensor = run.tensor("activation:2")
    return [key.mode_step for key in run.timeline.keys(mode) if key.step in tensor.steps(mode)]


SCHEDULES: tuple[tuple[dict[str, object], int], ...] = (
    ({"every": 2}, 10),
    ({"every": 2, "start": 8}, 6),
    ({"every": 2, "start": 8, "stop": 14}, 3),
    ({"every": 2, "stop": 8}, 4),
    ({"steps": (0, 4, 5)}, 3),
    ({"steps": (3,), "every": 10}, 3),  # 0, 3, 10
    ({"steps": (3, 7), "every": 5, "start": 9}, 5),  # 3, 7, 9, 14, 19
    ({"start": 100}, 0),
)


@pytest.fixture(scope="module")
def scheduled(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Train with a separate capture schedule for each layer."""
    collections = {
        f"of layer {layer}": Collection(tensors=(f"activations:{layer}",), **fields)  # type: ignore[arg-type]
        for layer, (fields, _) in enumerate(SCHEDULES)
    }
    layers = [*(nn.Linear(4, 4) for _ in SCHEDULES), nn.Linear(4, 3)]
    folder = tmp_path_factory.mktemp("scheduled")
    model = nn.Sequential(*layers)
    return trained(folder, STEPS, model=model, collections=collections, **UNJUDGED)


@pytest.mark.parametrize("layer", range(len(SCHEDULES)))
def test_a_training_is_captured_by_the_words_of_its_schedule(scheduled: Run, layer: int) -> None:
    fields, count = SCHEDULES[layer]
    name = f"activation:{layer}"
    is_there = name in {tensor.identity for tensor in scheduled.tensors()}
    steps = list(scheduled.tensor(name).steps("train")) if is_there else []
    assert len(steps) == count
    assert steps == [n for n in range(STEPS) if Schedule(**fields).is_due(n)]  # type: ignore[arg-type]


def test_modes_have_schedules_of_their_own(tmp_path: Path) -> None:
    fields = {"every": 5, "eval": Schedule(every=8)}
    assert captured(tmp_path / "t", **fields) == [0, 5, 10, 15]
    # The evaluation before the first step closes comes before the run exists.
    assert captured(tmp_path / "e", "eval", **fields) == [8, 16]
    assert captured(tmp_path / "n", "eval", every=1) == []


def test_intervals_count_from_the_start_and_not_from_zero(tmp_path: Path) -> None:
    assert captured(tmp_path, every=4, start=3, stop=13) == [3, 7, 11]


def test_a_schedule_that_never_saves_is_refused_and_an_empty_choice_saves_nothing(
    tmp_path: Path,
) -> None:
    with pytest.raises(ConfigError, match="stop must be later than start"):
        captured(tmp_path / "a", stop=0)
    off = trained(tmp_path / "b", 3, collections={}, **UNJUDGED)
    assert off.tensors() == ()
    assert len(off.scalars("loss")[0].steps_S) == 3  # losses are always captured


EVERYWHERE = {
    "head": Collection(
        tensors=("weights:2.*", "re:bias"),
        modules=("2",),
        module_types=("Linear",),
        statistics=("mean", "l2"),
        raw=True,
        every=7,
        start=2,
        stop=50,
        steps=(1,),
        eval=Schedule(steps=(3,)),
        predict=Schedule(logarithmic=True),
        on=("NUM",),
        for_steps=3,
        budget_mb=2.5,
    )
}


TOML = """
[collections.head]
tensors = ["weights:2.*", "re:bias"]
modules = ["2"]
module_types = ["Linear"]
statistics = ["mean", "l2"]
raw = true
every = 7
start = 2
stop = 50
steps = [1]
eval = {steps = [3]}
predict = {logarithmic = true}
on = ["NUM"]
for_steps = 3
budget_mb = 2.5
"""


def test_a_collection_comes_back_from_json_and_toml_as_it_went(tmp_path: Path) -> None:
    described = msgspec.to_builtins(EVERYWHERE)
    assert msgspec.convert(json.loads(json.dumps(described)), dict[str, Collection]) == EVERYWHERE
    environ = {"MOTHTRAP_COLLECTIONS": json.dumps(described)}
    assert load_config(start=tmp_path, environ=environ)[0].collections == EVERYWHERE
    (tmp_path / "mothtrap.toml").write_text(TOML)
    assert load_config(start=tmp_path, environ={})[0].collections == EVERYWHERE
    other = Collection(tensors=("weights:2.*",))
    assert EVERYWHERE["head"] != other


def test_a_run_knows_the_collections_that_it_was_made_with(tmp_path: Path) -> None:
    run = trained(tmp_path, 1, collections=EVERYWHERE)
    assert run.info is not None
    stored = msgspec.convert(run.info.config["collections"], dict[str, Collection], strict=False)
    assert stored == EVERYWHERE


def test_every_documented_statistic_and_reduction_is_accepted(tmp_path: Path) -> None:
    words = "count nan inf zero min max mean std abs_mean abs_max l2 exponents quantiles"
    every = Collection(statistics=tuple(words.split()), every=1)  # type: ignore[arg-type]
    run: Run = trained(tmp_path, 2, collections={"gradients": every})
    known = run.tensor("gradient:0.weight").statistics(1)
    assert set(words.split()) - {"exponents", "quantiles"} <= set(known)
    assert run.tensor("exponents(gradient:0.weight)").at(1).shape == (2, 64)
    assert run.tensor("quantiles(gradient:0.weight)").at(1).shape == (9,)
