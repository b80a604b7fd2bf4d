"""Collections in real trainings store the actual values."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.harness.running import environment, observed
from tests.harness.running import run as finished
from torch import nn

import mothtrap
from mothtrap import Collection, Schedule
from mothtrap.capture.plan import Plan
from mothtrap.core.errors import ConfigError, StepUnavailableError
from mothtrap.core.facts.captures import Blind, ToolError
from mothtrap.core.steps import Mode
from mothtrap.reader.run import Run
from mothtrap.session.control_client import in_force
from mothtrap.statistics.distribution import quantiles
from mothtrap.statistics.exponents import count_exponents
from mothtrap.statistics.numpy import summarize
from mothtrap.statistics.summary import STATISTICS, derive

WRITERS = ["thread", "process"]


def trained(
    folder: Path,
    steps: int,
    each: Callable[[int, nn.Module, Any], None] = lambda step, model, dbg: None,
    **settings: Any,
) -> Run:
    """Train a small model; `each` is called between backward and step."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    settings = {"overhead": 0.0, "runs_dir": str(folder), **settings}
    with mothtrap.watch(model, optimizer, **settings) as dbg:
        for step in range(steps):
            loss = (model(torch.randn(16, 4)) - 1).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            each(step, model, dbg)
            optimizer.step()
    assert dbg.path is not None
    run = mothtrap.open_run(dbg.path)
    assert run.tool_errors == ()
    return run


def raw_steps(run: Run, name: str, mode: Mode = Mode.TRAIN) -> list[int]:
    return [key.mode_step for key in run.tensor(name).raw_keys(mode)]


@pytest.mark.parametrize("writer", WRITERS)
def test_values_are_kept_bit_by_bit_on_schedule(tmp_path: Path, writer: str) -> None:
    seen: dict[int, bytes] = {}

    def each(step: int, model: nn.Module, dbg: Any) -> None:
        seen[step] = model.get_parameter("0.weight").detach().numpy().tobytes()

    collections = {"weights": Collection(raw=True, every=3, start=1, steps=(5,))}
    run = trained(tmp_path, 9, each, writer=writer, collections=collections)
    assert raw_steps(run, "weight:0.weight") == [1, 4, 5, 7]
    tensor = run.tensor("weight:0.weight")
    assert all(tensor.at(step).tobytes() == seen[step] for step in (1, 4, 5, 7))
    assert {t.identity for t in run.tensors() if len(t.raw_keys())} == {
        "weight:0.weight",
        "weight:2.weight",
    }


@pytest.mark.parametrize("writer", WRITERS)
def test_reductions_and_distributions_are_those_of_the_values(tmp_path: Path, writer: str) -> None:
    seen: list[np.ndarray] = []

    def each(step: int, model: nn.Module, dbg: Any) -> None:
        seen.append(model.get_parameter("0.weight").grad.numpy().copy())  # type: ignore[union-attr]

    chosen = Collection(
        tensors=("gradients:0.weight",),
        statistics=("exponents", "quantiles"),
        every=1,
        reductions={"p99": lambda array: np.quantile(np.abs(array), 0.99)},
    )
    run = trained(tmp_path, 4, each, writer=writer, collections={"mine": chosen})
    (series,) = run.scalars("p99:gradient:0.weight")
    assert series.values_S.tolist() == [np.quantile(np.abs(g), 0.99) for g in seen]
    counts = run.tensor("exponents(gradient:0.weight)")
    spread = run.tensor("quantiles(gradient:0.weight)")
    for step, gradient in enumerate(seen):
        assert np.array_equal(counts.at(step), count_exponents(gradient))
        assert np.array_equal(spread.at(step), quantiles(gradient))
    assert not len(run.tensor("gradient:0.weight").raw_keys())


@pytest.mark.parametrize("writer", WRITERS)
def test_exponents_are_captured_at_one_step_in_16(tmp_path: Path, writer: str) -> None:
    seen: list[np.ndarray] = []

    def each(step: int, model: nn.Module, dbg: Any) -> None:
        seen.append(model.get_parameter("0.weight").grad.numpy().copy())  # type: ignore[union-attr]

    both = Collection(tensors=("gradients:0.weight", "activations"), statistics=("exponents",))
    run = trained(tmp_path, 20, each, writer=writer, collections={"mine": both})
    tensor = run.tensor("gradient:0.weight")
    for step in (0, 16):
        found = tensor.exponents(step)
        assert np.array_equal(found.counts_2B, count_exponents(seen[step]))
        assert (found.zero, found.nan, found.inf) == (np.sum(seen[step] == 0), 0, 0)
    with pytest.raises(StepUnavailableError, match="at 2 steps from 0 to 16"):
        tensor.exponents(1)
    output = run.tensor("activation:1").exponents(16)
    assert output.counts_2B[0].sum() == 0  # of a ReLU
    assert output.counts.sum() + (output.zero or 0) == 16 * 8


class Cast(nn.Module):
    """A module that returns its input in another dtype."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.to(self.dtype)


@pytest.mark.parametrize("dtype", [torch.float8_e5m2, torch.float8_e4m3fn, torch.complex64])
def test_outputs_of_rare_types_are_told_as_they_are(tmp_path: Path, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    last = nn.Linear(8, 1, dtype=torch.complex64)
    model = nn.Sequential(nn.Linear(4, 8), Cast(dtype), Cast(torch.complex64), last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    asked = Collection(
        tensors=("activations", "gradients"), statistics=("all", "exponents"), raw=True, every=1
    )
    settings: dict[str, Any] = {"overhead": 0.0, "runs_dir": str(tmp_path)}
    with mothtrap.watch(model, optimizer, collections={"mine": asked}, **settings) as dbg:
        for _ in range(3):
            model(torch.randn(6, 4)).abs().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    run = mothtrap.open_run(dbg.path)
    assert run.tool_errors == ()
    for name in ("activation:1", "gradient:3.weight", "gradient:0.weight"):
        if name == "gradient:0.weight" and dtype is not torch.complex64:
            continue  # only fp8 gradients flow back through fp8
        tensor = run.tensor(name)
        values = tensor.at(2)
        row = summarize([values], STATISTICS)
        found = tensor.statistics(2)
        for statistic in ("count", "nan", "zero", "min", "max", "mean", "std", "abs_mean", "l2"):
            assert found[statistic] == pytest.approx(derive(row, statistic)[0], rel=1e-5, abs=1e-9)
        assert np.array_equal(tensor.exponents(2).counts_2B, count_exponents(values))


def test_shares_of_units_are_captured_at_one_step_in_16(tmp_path: Path) -> None:
    asked = Collection(modules=("1",), statistics=("inactive", "saturated"))
    run = trained(tmp_path, 20, collections={"mine": asked})
    tensor = run.tensor("activation:1")
    found = tensor.history("inactive")
    assert set(found.steps_S.tolist()) >= {0, 16}
    assert ((found.values_S >= 0) & (found.values_S <= 1)).all()
    assert len(tensor.history("saturated")) == 0  # of a ReLU


def test_evaluations_are_captured_by_their_own_count(tmp_path: Path) -> None:
    outputs: list[bytes] = []

    def each(step: int, model: nn.Module, dbg: Any) -> None:
        with torch.no_grad():
            outputs.extend(model(torch.randn(2, 4)).numpy().tobytes() for _ in range(3))

    chosen = Collection(tensors=("activations:2",), raw=True, modes=(), eval=Schedule(every=4))
    numbers = Collection(tensors=("activations:2",), statistics=("mean",))
    run = trained(tmp_path, 5, each, collections={"mine": chosen, "numbers": numbers})
    tensor = run.tensor("activation:2")
    assert tensor.history("mean").steps_S.tolist() == [0, 1, 2, 3, 4]
    # The forwards before the first step closes come before the run exists.
    keys = tensor.raw_keys(Mode.EVAL)
    assert [key.mode_step for key in keys] == [4, 8, 12]
    assert tensor.raw_keys(Mode.TRAIN) == ()
    assert [tensor.at(key).tobytes() for key in keys] == [outputs[key.mode_step] for key in keys]


def test_what_a_collection_asks_for_is_kept_whatever_it_costs(tmp_path: Path) -> None:
    collections = {"gradients": Collection(raw=True), "weights": Collection(raw=True, every=2)}
    run = trained(tmp_path, 5, overhead=1e-9, collections=collections)
    assert raw_steps(run, "gradient:0.weight") == [0, 1, 2, 3, 4]
    assert raw_steps(run, "weight:0.weight") == [0, 2, 4]
    assert not [shed for shed in run.overhead.shed if "collection" in shed]
    assert run.overhead.asked_seconds > 0
    assert run.overhead.capture_seconds <= run.overhead.seconds


def test_a_collection_is_thinned_to_its_own_overhead_and_the_reader_says_so(
    tmp_path: Path,
) -> None:
    collections = {"gradients": Collection(raw=True, overhead=1e-9)}
    run = trained(tmp_path, 9, collections=collections)
    assert raw_steps(run, "gradient:0.weight") == [0, 1]
    with pytest.raises(StepUnavailableError, match="skipped to stay within `overhead`: copies"):
        run.tensor("gradient:0.weight").at(5)


def test_where_the_bytes_of_a_collection_are_used_up_the_reader_says_from_when_on(
    tmp_path: Path,
) -> None:
    collections = {"weights": Collection(raw=True, tensors=("weight:0.*",), budget_mb=300 / 2**20)}
    run = trained(tmp_path, 9, collections=collections)
    assert raw_steps(run, "weight:0.weight") == [0, 1]  # of 128 bytes each
    with pytest.raises(
        StepUnavailableError, match=r"from step 2 on, copies .*its budget of 0.0002"
    ):
        run.tensor("weight:0.weight").at(7)


def test_buffers_are_captured_as_each_step_left_them(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    settings = {"collections": {"buffers": Collection(raw=True)}, "runs_dir": str(tmp_path)}
    seen = []
    with mothtrap.watch(model, optimizer, name="x", **settings) as dbg:
        for _ in range(3):
            model(torch.randn(8, 4)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            seen.append(model.get_buffer("1.running_mean").tolist())
            with torch.no_grad():
                model(torch.randn(8, 4))  # also changes them after the step
        dbg.log("end", 0)
    run = mothtrap.open_run(tmp_path / "x")
    names = ["1.running_mean", "1.running_var", "1.num_batches_tracked"]
    assert [tensor.name for tensor in run.tensors(collection="buffers")] == names
    assert [run.tensor("buffer:1.running_mean").at(step).tolist() for step in range(3)] == seen
    assert run.tensor("buffer:1.num_batches_tracked").at(2) == 5


@pytest.mark.parametrize("pattern", ["*", "input:*", "re:^input:"])
def test_inputs_of_modules_are_among_all_inputs(tmp_path: Path, pattern: str) -> None:
    chosen = Collection(tensors=(pattern,), statistics=("mean",))
    run = trained(tmp_path, 2, collections={"mine": chosen})
    names = {tensor.name for tensor in run.tensors(kind="input") if len(tensor.steps())}
    assert names == {"Sequential.0", "0.0", "1.0", "2.0"}


def test_the_collection_inputs_is_of_whole_models(tmp_path: Path) -> None:
    run = trained(tmp_path, 2, collections={"inputs": Collection(statistics=("mean",))})
    assert [tensor.name for tensor in run.tensors(kind="input")] == ["Sequential.0"]


def test_shapes_that_are_followed_can_be_read(tmp_path: Path) -> None:
    run = trained(tmp_path, 3, collections={"weights": Collection(shape_only=True)})
    tensor = run.tensor("weight:0.weight")
    assert tensor.steps().tolist() == [0, 1, 2]
    assert [tensor.shape_at(step) for step in range(3)] == [(8, 4)] * 3
    with pytest.raises(StepUnavailableError, match="`shape_at` returns the shapes"):
        tensor.at(1)
    with pytest.raises(StepUnavailableError, match=r"no shapes .* at 3 steps from 0 to 2"):
        tensor.shape_at(9)


def test_a_finding_calls_for_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    called = threading.Event()
    call = Plan.call

    def tell(plan: Plan, code: str) -> None:
        call(plan, code)
        called.set()

    def each(step: int, model: nn.Module, dbg: Any) -> None:
        if step == 20:
            model.get_parameter("0.weight").grad.fill_(float("nan"))  # type: ignore[union-attr]
        if step == 21:  # step 20 is closed: its record is with the rules, in their own thread
            assert called.wait(60)

    monkeypatch.setattr(Plan, "call", tell)
    chosen = Collection(raw=True, on=("NUM",), for_steps=4)
    run = trained(tmp_path, 40, each, collections={"weights": chosen})
    assert raw_steps(run, "weight:0.weight")[:4] == [22, 23, 24, 25]


def test_logged_tensors_are_kept(tmp_path: Path) -> None:
    def each(step: int, model: nn.Module, dbg: Any) -> None:
        dbg.log_tensor("confusion", np.full((2, 2), step))
        dbg.log_tensor("half", torch.full((3,), step, dtype=torch.bfloat16, requires_grad=True))
        mothtrap.log_tensor("from elsewhere", [step, 0.5])
        mothtrap.log("number", step)

    run = trained(tmp_path, 3, each)
    for step in range(3):
        assert run.tensor("metric:confusion").at(step).tolist() == [[step, step]] * 2
        half = run.tensor("metric:half").at(step)
        assert (half.dtype.name, half.astype(float).tolist()) == ("bfloat16", [float(step)] * 3)
        assert run.tensor("metric:from elsewhere").at(step).tolist() == [step, 0.5]
    assert run.scalars("number")[0].values_S.tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("evaluates", [False, True])
def test_each_logged_value_bears_the_number_of_its_step(tmp_path: Path, evaluates: bool) -> None:
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with mothtrap.watch(model, optimizer, name="x", runs_dir=str(tmp_path)) as dbg:
        for step in range(4):
            dbg.log("top", step)
            dbg.log_tensor("first", [step])
            optimizer.zero_grad()
            loss = model(torch.ones(4, 2)).sum()
            dbg.log("forward done", step)
            loss.backward()
            optimizer.step()
            dbg.log("step done", step)
            if evaluates and step % 2:
                with torch.no_grad():
                    model(torch.ones(4, 2))
        dbg.log("end", 4)
    run = mothtrap.open_run(tmp_path / "x")
    for name in ("top", "forward done", "step done", "end"):
        (logged,) = run.scalars(name, mode="train")
        assert logged.values_S.tolist() == logged.steps_S.tolist(), name
    assert [(k.step, *v) for k, v in run.tensor("first").values()] == [(s, s) for s in range(4)]
    assert run.steps_of("train").tolist() == [0, 1, 2, 3]


def test_what_is_logged_after_the_last_step_is_kept(tmp_path: Path) -> None:
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with mothtrap.watch(model, optimizer, name="x", runs_dir=str(tmp_path)) as dbg:
        for _ in range(3):
            model(torch.ones(4, 2)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        with torch.no_grad():
            model(torch.ones(4, 2))
        dbg.log("test accuracy", 0.5)
        mothtrap.log_tensor("confusion", [[1, 2], [3, 4]])
    run = mothtrap.open_run(tmp_path / "x")
    (accuracy,) = run.scalars("test accuracy", mode="train")
    assert (accuracy.steps_S.tolist(), accuracy.values_S.tolist()) == ([3], [0.5])
    assert run.tensor("confusion").at(3).tolist() == [[1, 2], [3, 4]]
    assert run.steps_of("train").tolist() == [0, 1, 2]


def test_logging_never_raises_and_tells_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Hostile:
        def __getattr__(self, name: str) -> Any:
            raise OSError("no")

    def each(step: int, model: nn.Module, dbg: Any) -> None:
        dbg.log_tensor("bad", Hostile())
        dbg.log_tensor("worse", ["text"])
        dbg.log_tensor("meta", torch.empty(3, device="meta"))

    run = trained(tmp_path, 3, each)
    told = {fact.what for fact in run.observations(Blind)}
    assert {"values of bad", "values of worse", "values of meta"} <= told
    assert capsys.readouterr().err.count("'bad' got a Hostile, not a tensor") == 1
    assert run.observations(ToolError) == ()


def test_outside_a_run_nothing_is_logged_and_nothing_loaded() -> None:
    mothtrap.log("a", 1.0)
    mothtrap.log_tensor("a", object())


def test_a_collection_that_makes_no_sense_is_refused_before_the_training(tmp_path: Path) -> None:
    def refused(words: str, **fields: Any) -> None:
        with pytest.raises(ConfigError, match=words):
            trained(tmp_path, 0, collections={"mine": fields})

    refused("mine.tensors: 'wieghts' is not a built-in .*'weights'", tensors=["wieghts"])
    refused("unknown key 'collections.mine.evry'", tensors=["weights"], evry=3)
    refused("collections.mine.on contains 'NUN'", tensors=["weights"], on=["NUN"])
    assert list(tmp_path.iterdir()) == []


UNDER_RUN = """
import numpy as np, torch, mothtrap
from mothtrap import Collection
torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
mine = {
    "mine": Collection(tensors=("gradients",), raw=True, every=2),
    "largest": Collection(tensors=("gradients",), reductions={"peak": lambda a: np.abs(a).max()}),
}
mothtrap.watch(model, optimizer, collections=mine, queue_mb=7, writer="thread")
for step in range(6):
    model(torch.randn(8, 4)).pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_collections_of_the_script_count_under_mothtrap_run_too(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(UNDER_RUN)
    env = environment(MOTHTRAP_OVERHEAD="0", MOTHTRAP_COLLECTIONS="weights = {raw = true}")
    command = observed([tmp_path / "train.py"], runs_dir=tmp_path / "runs", name="job")
    outcome = finished(command, cwd=tmp_path, env=env)
    assert outcome.returncode == 0, outcome.stderr
    assert "mothtrap: watch: queue_mb ignored, because" in outcome.stderr
    run = mothtrap.open_run(tmp_path / "runs" / "job")
    assert raw_steps(run, "gradient:weight") == [0, 2, 4]
    assert raw_steps(run, "weight:weight") == list(range(6))
    (peaks,) = run.scalars("peak:gradient:weight")
    assert peaks.steps_S.tolist() == list(range(6))
    assert list(in_force(run.path)) == ["weights", "mine", "largest"]
    assert run.collections["mine"] == Collection(tensors=("gradients",), raw=True, every=2)
    assert [t.name for t in run.tensors(collection="mine")] == ["weight", "bias"]
    assert peaks.values_S[2] == np.abs(run.tensor("gradient:weight").at(2)).max()
    assert run.tool_errors == ()
