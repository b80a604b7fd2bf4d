"""`mothtrap.watch` on real models: it observes only its targets, and changes nothing else."""

from __future__ import annotations

import copy
import gc
import io
import sys
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from tests.harness.running import PYTHON, environment, observed, run
from torch import nn

import mothtrap
from mothtrap.core.errors import ConfigError
from mothtrap.core.facts.captures import ToolError
from mothtrap.core.facts.workers import WorkerEnded
from mothtrap.session.watching import Watch

Setup = tuple[nn.Module, torch.optim.Optimizer]


def made(seed: int = 0) -> Setup:
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    return model, torch.optim.SGD(model.parameters(), lr=0.05)


def train(setup: Setup, steps: int, after: Callable[[torch.Tensor], None]) -> list[float]:
    """Train on random numbers; `after` gets the loss of each step once it is done."""
    model, optimizer = setup
    losses = []
    for _ in range(steps):
        loss = (model(torch.randn(16, 4)) - 1).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        after(loss)
    return losses


def hooks(model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Return the number of hooks on an optimizer, a model and its parameters."""
    tables = [optimizer._optimizer_step_pre_hooks, optimizer._optimizer_step_post_hooks]
    for module in model.modules():
        tables += [module._forward_hooks, module._forward_pre_hooks, module._backward_hooks]
    tables += [p._post_accumulate_grad_hooks or {} for p in model.parameters()]
    return sum(len(table) for table in tables)


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[tuple[Setup, Watch]]:
    setup = made()
    with mothtrap.watch(*setup, runs_dir=str(tmp_path)) as watch:
        yield setup, watch


def scalar(watch: Watch, name: str) -> list[float]:
    assert watch.path is not None
    (series,) = mothtrap.open_run(watch.path).scalars(name)
    return series.values_S.tolist()


def test_stored_losses_are_the_users_own(watched: tuple[Setup, Watch]) -> None:
    setup, watch = watched
    assert watch.path is None
    losses = train(setup, 20, lambda loss: watch.step(loss=loss, scalars={"accuracy": 0.5}))
    watch.close()
    assert scalar(watch, "loss") == losses
    assert scalar(watch, "accuracy") == [0.5] * 20
    assert scalar(watch, "micro_batches") == [1.0] * 20
    assert watch.path is not None
    stored = mothtrap.open_run(watch.path)
    assert (stored.steps, stored.state, stored.workers) == (20, "finished", (0,))
    assert stored.tool_errors == ()


def test_a_loss_may_be_a_number_and_a_number_may_be_logged(watched: tuple[Setup, Watch]) -> None:
    setup, watch = watched

    def after(loss: torch.Tensor) -> None:
        watch.step(loss=loss.item())
        watch.log("temperature", 0.7)

    losses = train(setup, 5, after)
    watch.close()
    assert scalar(watch, "loss") == losses
    assert scalar(watch, "temperature") == [0.7] * 5


def test_training_is_the_same_to_the_bit(tmp_path: Path) -> None:
    plain = made()
    losses = train(plain, 20, lambda loss: None)
    setup = made()
    with mothtrap.watch(*setup, runs_dir=str(tmp_path), capture="everything") as watch:
        assert train(setup, 20, lambda loss: watch.step(loss=loss)) == losses
    for ours, theirs in zip(setup[0].parameters(), plain[0].parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_closing_takes_every_hook_out(watched: tuple[Setup, Watch]) -> None:
    setup, watch = watched
    assert hooks(*setup) > 0
    train(setup, 3, lambda loss: None)
    watch.close()
    assert hooks(*setup) == 0
    train(setup, 3, lambda loss: watch.step(loss=loss))
    watch.close()
    assert watch.path is not None
    assert mothtrap.open_run(watch.path).steps == 3


def test_an_error_inside_the_block_ends_the_watch_and_passes(tmp_path: Path) -> None:
    setup = made()
    watch = mothtrap.watch(*setup, runs_dir=str(tmp_path))

    def fail(loss: torch.Tensor) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), watch:
        train(setup, 2, fail)
    assert hooks(*setup) == 0
    assert watch.path is not None
    assert mothtrap.open_run(watch.path).steps == 1


def test_other_models_and_the_framework_are_not_touched(watched: tuple[Setup, Watch]) -> None:
    other = made(seed=1)
    assert hooks(*other) == 0
    modules = torch.nn.modules.module
    assert not modules._global_forward_hooks
    assert not modules._global_forward_pre_hooks
    assert not sys.modules["torch.optim.optimizer"]._global_optimizer_pre_hooks
    assert torch.autograd.backward.__module__ == "torch.autograd"
    assert "mothtrap" not in torch.optim.Optimizer.zero_grad.__code__.co_filename
    setup, watch = watched
    train(setup, 3, lambda loss: train(other, 2, lambda _: None))
    watch.close()
    assert len(scalar(watch, "step_s")) == 3


def test_a_deep_copy_is_not_watched(watched: tuple[Setup, Watch]) -> None:
    (model, optimizer), watch = watched
    twin = copy.deepcopy(model)
    twins_optimizer = torch.optim.SGD(twin.parameters(), lr=0.05)
    train((model, optimizer), 3, lambda loss: train((twin, twins_optimizer), 2, lambda _: None))
    watch.close()
    assert scalar(watch, "micro_batches") == [1.0] * 3


def test_a_saved_model_loads_where_no_one_watches(
    watched: tuple[Setup, Watch], tmp_path: Path
) -> None:
    (model, _), _ = watched
    torch.save(model, tmp_path / "model.pt")
    code = (
        "import sys; sys.modules['mothtrap'] = None\n"
        "import torch\n"
        "model = torch.load(sys.argv[1], weights_only=False)\n"
        "print(model(torch.ones(1, 4)).item())\n"
    )
    loaded = run([*PYTHON, "-c", code, tmp_path / "model.pt"], cwd=tmp_path)
    assert loaded.returncode == 0, loaded.stderr
    assert float(loaded.stdout) == model(torch.ones(1, 4)).item()


def test_weights_are_saved_as_without_a_watch(watched: tuple[Setup, Watch]) -> None:
    (model, optimizer), _ = watched
    stream = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, stream)
    stream.seek(0)
    assert set(torch.load(stream, weights_only=True)["model"]) == set(made()[0].state_dict())
    assert copy.deepcopy(optimizer).state_dict().keys() == optimizer.state_dict().keys()


def test_several_optimizers_may_be_given(tmp_path: Path) -> None:
    model, _ = made()
    first, last = (torch.optim.SGD(model[n].parameters(), lr=0.1) for n in (0, 2))
    with mothtrap.watch(model, [first, last], runs_dir=str(tmp_path)) as watch:
        for _ in range(4):
            model(torch.randn(8, 4)).mean().backward()
            first.step()
            last.step()
    assert watch.path is not None
    records = [r for r in mothtrap.open_run(watch.path).records() if r.optimizers]
    assert [record.optimizers for record in records] == [("SGD", "SGD#1")] * 4


def test_several_models_may_be_given(tmp_path: Path) -> None:
    generator, own = made()
    critic, others = made(seed=1)
    with mothtrap.watch(
        [generator, critic, critic[0]], [own, others], runs_dir=str(tmp_path), capture="everything"
    ) as watch:
        for _ in range(4):
            for model, optimizer in ((critic, others), (generator, own)):
                optimizer.zero_grad()
                (model(torch.randn(8, 4)) - 1).pow(2).mean().backward()
                optimizer.step()
                watch.step(loss=0.5)
    assert watch.path is not None
    opened = mothtrap.open_run(watch.path)
    assert opened.steps == 8
    names = {tensor.name for tensor in opened.tensors() if tensor.kind == "gradient"}
    assert len(names) == 8, names
    assert not opened.tool_errors
    assert not hooks(generator, own)
    assert not hooks(critic, others)


def test_no_model_and_what_follows_the_models_is_refused() -> None:
    model, optimizer = made()
    with pytest.raises(TypeError, match="the list of models is empty"):
        mothtrap.watch([], optimizer)
    with pytest.raises(TypeError, match="no adapter accepts"):
        mothtrap.watch([model, 3], optimizer)
    with pytest.raises(TypeError, match="as an optimizer"):
        mothtrap.watch([model], [optimizer, 3])


@pytest.mark.parametrize("optimizer", [None, ()])
def test_without_an_optimizer_the_calls_count_the_steps(
    optimizer: tuple[()] | None, tmp_path: Path
) -> None:
    model, own = made()
    with mothtrap.watch(model, optimizer, runs_dir=str(tmp_path)) as watch:
        losses = train((model, own), 6, lambda loss: watch.step(loss=loss))
    assert scalar(watch, "loss") == losses


@pytest.mark.parametrize("target", [object(), "model", nn.Linear(2, 2).weight])
def test_what_no_one_knows_is_refused(target: object) -> None:
    with pytest.raises(TypeError, match=r"cannot watch a .*mothtrap knows models of: .*torch"):
        mothtrap.watch(target)


def test_a_mistyped_setting_names_the_nearest() -> None:
    setup = made()
    with pytest.raises(ConfigError, match=r"unknown setting 'captur' \(did you mean 'capture'"):
        mothtrap.watch(*setup, captur="off")
    assert hooks(*setup) == 0


@pytest.mark.parametrize("name", ["a/b", "../x", ".x", "a\\b"])
def test_a_name_that_names_no_folder_is_refused_before_the_training(
    name: str, tmp_path: Path
) -> None:
    setup = made()
    with pytest.raises(ConfigError, match=r"watch: name '.*' is not a valid name of a run"):
        mothtrap.watch(*setup, name=name, runs_dir=str(tmp_path / "runs"))
    assert hooks(*setup) == 0
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_is_taken_is_said_once_and_training_goes_on(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "taken" / "mine").mkdir(parents=True)
    setup = made()
    with mothtrap.watch(*setup, runs_dir=str(tmp_path), name="taken") as watch:
        train(setup, 3, lambda loss: watch.step(loss=loss))
    said = capfd.readouterr().err
    assert said.count("run folder failed") == 1
    assert "choose another name" in said
    assert list((tmp_path / "taken").iterdir()) == [tmp_path / "taken" / "mine"]


def test_a_name_of_ones_own_and_a_made_one(tmp_path: Path) -> None:
    paths = []
    for name in ("mine", None, None):
        setup = made()
        with mothtrap.watch(*setup, runs_dir=str(tmp_path), name=name) as watch:
            train(setup, 1, lambda loss: None)
        assert watch.path is not None
        paths.append(watch.path)
    assert paths[0] == tmp_path / "mine"
    assert len({*paths}) == 3


def test_without_a_loss_the_verdict_says_how_to_hand_it_over(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    setup = made()
    with mothtrap.watch(*setup, runs_dir=str(tmp_path)):
        train(setup, 3, lambda _: None)
    said = " ".join(capfd.readouterr().err.split())
    assert "no loss was recorded: pass it with dbg.step(loss=loss)" in said


def test_numbers_are_given_by_keyword_and_bad_ones_cost_themselves_alone(tmp_path: Path) -> None:
    setup = made()

    def give(loss: torch.Tensor) -> None:
        watch.step(loss=loss, accuracy=0.5, table="bad")
        watch.step(loss="also bad")

    with mothtrap.watch(*setup, runs_dir=str(tmp_path)) as watch:
        train(setup, 4, give)
    assert watch.path is not None
    run = mothtrap.open_run(watch.path)
    assert len(run.scalars("accuracy")[0].values_S) == 4
    assert len(run.scalars("loss")[0].values_S) == 4
    assert {blind.what for blind in run.blind} >= {"values of table", "losses given to step()"}
    assert not run.tool_errors


def test_switched_off_it_does_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOTHTRAP_DISABLE", "1")
    setup = made()
    with mothtrap.watch(*setup, runs_dir=str(tmp_path)) as watch:
        assert hooks(*setup) == 0
        train(setup, 2, lambda loss: watch.step(loss=loss, scalars={"a": 1.0}))
        watch.log("b", 2.0)
    assert watch.path is None
    assert list(tmp_path.iterdir()) == []


def test_a_failure_before_the_first_step_is_told_by_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("planted failure")

    monkeypatch.setattr("mothtrap.capture.grouper.Grouper.feed", fail)
    setup = made()
    with mothtrap.watch(*setup, runs_dir=str(tmp_path)) as watch:
        train(setup, 2, lambda loss: watch.step(loss=loss))
    live, _, verdict = capfd.readouterr().err.partition("\n\n")
    assert live.count("planted failure") == 1
    assert "Nothing was observed: mothtrap failed" in verdict
    assert watch.path is not None
    stored = mothtrap.open_run(watch.path)
    assert stored.steps == 0
    assert [error.error for error in stored.observations(ToolError)] == [
        "RuntimeError: planted failure"
    ]


def test_the_end_of_a_watch_has_a_verdict(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    setup = made()
    with mothtrap.watch(*setup, runs_dir=str(tmp_path), name="said") as watch:
        train(setup, 3, lambda loss: watch.step(loss=loss))
    said = capfd.readouterr().err
    assert "Nothing wrong was found in 3 steps" in said
    assert "mothtrap show" in said


SESSION = """
import torch, mothtrap
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
dbg = mothtrap.watch(model, optimizer, name="session")
def turn():
    loss = model(torch.ones(8, 4)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    dbg.step(loss=loss)

for _ in range(7): turn()

trun()
for _ in range(5): turn()

print(dbg)
"""


def test_a_session_that_never_closes_stores_everything_at_its_end(tmp_path: Path) -> None:
    session = run([sys.executable, "-i", "-q"], cwd=tmp_path, env=environment(), text=SESSION)
    assert "NameError" in session.stderr
    assert session.stdout.endswith("<mothtrap.Watch runs/session>\n")
    stored = mothtrap.open_run(tmp_path / "runs" / "session")
    assert stored.steps == 12
    assert stored.state == "finished", "a mistyped line is no end of the job"


def test_a_script_that_raises_says_so_in_its_run(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    lines = SESSION.replace("trun()", "").replace("print(dbg)", "raise ValueError('no data')")
    script.write_text(lines, encoding="utf-8")
    assert run([*PYTHON, script], cwd=tmp_path).returncode == 1
    stored = mothtrap.open_run(tmp_path / "runs" / "session")
    assert (stored.steps, stored.state) == (12, "crashed")
    [end] = stored.observations(WorkerEnded)
    assert end.exception == "ValueError: no data"
    assert end.location == f"train.py:{1 + lines[: lines.index('raise')].count(chr(10))}"


def test_inside_an_observed_job_a_watch_joins_it(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        SESSION.replace("trun()", "").replace("loss=loss", "scalars={'accuracy': 0.5}")
        + "dbg.log('last', 1.0)\ndbg.close()\nturn()\n",
        encoding="utf-8",
    )
    seen = run(observed([script], runs_dir=tmp_path / "runs", name="job"), cwd=tmp_path)
    assert seen.returncode == 0, seen.stderr
    assert seen.stdout == f"<mothtrap.Watch {tmp_path / 'runs' / 'job'}>\n"
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["job"]
    stored = mothtrap.open_run(tmp_path / "runs" / "job")
    assert (stored.steps, stored.workers) == (13, (0,))
    (accuracy,) = stored.scalars("accuracy")
    assert len(accuracy) == 13
    assert len(stored.scalars("loss")) == 1


def test_a_watch_that_was_closed_keeps_no_model_alive(tmp_path: Path) -> None:
    setup = made()
    watch = mothtrap.watch(*setup, runs_dir=str(tmp_path))
    train(setup, 3, watch.step)
    model = weakref.ref(setup[0])
    watch.close()
    del watch, setup
    gc.collect()
    assert model() is None
