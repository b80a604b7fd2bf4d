"""A session needs only the protocol from an adapter; all adapters of a process make one run."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import cast

import msgspec
import pytest
from tests.harness.running import environment, observed, run, show
from tests.plugins import install
from tests.session.toy import Model, Toy, attached

import mothtrap
from mothtrap.core.adapters import Environment, Handle, Job, Losses
from mothtrap.core.config import Config
from mothtrap.core.control_requests import SnapshotRequest
from mothtrap.core.errors import PluginError
from mothtrap.core.facts.snapshots import SnapshotKept
from mothtrap.core.facts.workers import Resumed, WorkerEnded, WorkerStarted
from mothtrap.core.findings import RuleState
from mothtrap.core.replays import PLAN_VARIABLE, ReplayPlan
from mothtrap.core.reports import Reports
from mothtrap.core.snapshot_orders import SnapshotOrder, SnapshotSink
from mothtrap.session import adapters, launch, startup
from mothtrap.session.worker import Worker
from mothtrap.store import control_inbox, layout

Adapters = dict[str, Toy]


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> Adapters:
    """Return the known adapters by framework name; `tests` is the one of `Model`."""
    found = {"tests": Toy("tests")}
    monkeypatch.setattr(adapters, "frameworks", lambda: tuple(sorted(found)))
    monkeypatch.setattr(adapters, "load", lambda name: found[name].spec)
    return found


@pytest.fixture
def attempt(tmp_path: Path) -> Path:
    return layout.create_run(tmp_path / "seen", launch.run_info("seen", ["train.py"], Config()))


@pytest.fixture
def make(attempt: Path) -> Iterator[Callable[..., Worker]]:
    workers = []

    def make(config: Config = Config()) -> Worker:  # noqa: B008
        workers.append(Worker(lambda: attempt, config, "numpy", print))
        return workers[-1]

    yield make
    for worker in workers:
        worker.close()


def losses(path: Path) -> list[float]:
    (series,) = mothtrap.open_run(path).scalars("loss")
    return series.values_S.tolist()


def test_a_model_of_any_framework_can_be_watched(known: Adapters, tmp_path: Path) -> None:
    model = Model()
    with mothtrap.watch(model, runs_dir=str(tmp_path)) as watch:
        own = [model.fit_round() for _ in range(5)]
        watch.log("mine", 3)
        model.loss = math.nan
        model.fit_round()
    assert watch.path is not None
    stored = mothtrap.open_run(watch.path)
    assert losses(watch.path)[:5] == own
    assert (stored.steps, stored.state) == (6, "finished")
    (started,) = stored.observations(WorkerStarted)
    assert (started.framework, started.versions) == ("tests", {"tests": "1.0"})
    assert [finding.name for finding in stored.findings] == ["nonfinite_loss"]
    assert known["tests"].calls == ["surroundings", "detach"]


def test_rules_that_could_see_nothing_are_not_ok(known: Adapters, tmp_path: Path) -> None:
    model = Model()
    with mothtrap.watch(model, runs_dir=str(tmp_path)) as watch:
        for _ in range(600):
            model.loss = 2.0
            model.fit_round()
    assert watch.path is not None
    rules = {status.name: status for status in mothtrap.open_run(watch.path).rules}
    found = {name for name, status in rules.items() if status.state is RuleState.OK}
    of_losses = {"nonfinite_loss", "loss_diverging", "loss_spike", "loss_oscillating"}
    assert "nonfinite_loss" in found
    assert found <= of_losses | {"stalled_training", "loss_not_decreasing"}
    blind = rules["disconnected_parameter"]
    assert blind.state is RuleState.NOT_APPLICABLE
    assert blind.reason == 'mothtrap does not record "unreached module" with tests'


def test_steps_can_be_made_by_hand(known: Adapters, tmp_path: Path) -> None:
    with mothtrap.watch(Model(), runs_dir=str(tmp_path)) as watch:
        for number in range(3):
            watch.step(loss=1.0, accuracy=number / 2)
    assert watch.path is not None
    (series,) = mothtrap.open_run(watch.path).scalars("accuracy")
    assert losses(watch.path) == [1.0] * 3
    assert series.values_S.tolist() == [0.0, 0.5, 1.0]


UNHEEDED = {"on_nonfinite": "stop", "max_gradient_norm": 2.0, "snapshot_at": (1,)}


def test_settings_that_an_adapter_does_not_honor_are_said_before_the_first_step(
    known: Adapters, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = Model()
    with mothtrap.watch(model, runs_dir=str(tmp_path), **UNHEEDED) as watch:
        said = capsys.readouterr().err
        model.fit_round()
    assert watch.path is not None
    sentences = [
        "on_nonfinite = stop has no effect: steps of tests cannot be skipped, and are "
        "applied unchanged",
        "max_gradient_norm = 2 has no effect: gradients of tests are not checked before they are "
        "applied",
        "snapshot_at has no effect: no snapshots of tests are taken, so no step can be replayed",
    ]
    assert said.splitlines() == [f"mothtrap: {sentence}" for sentence in sentences]
    verdict = " ".join(capsys.readouterr().err.split())
    for sentence in sentences:
        assert sentence.replace("has no effect", "had no effect") in verdict
    stored = show(watch.path, cwd=tmp_path)["ignored"]
    assert [f"{one['setting']} has no effect: {one['reason']}" for one in stored] == sentences


def test_settings_are_said_to_have_no_effect_on_frameworks_that_train_only(
    known: Adapters, make: Callable[..., Worker], capsys: pytest.CaptureFixture[str]
) -> None:
    worker = make(Config(on_nonfinite="skip"))
    jobs = [attached(worker, Toy(name)) for name in ("idle", "busy")]
    capsys.readouterr()
    for _ in range(3):
        jobs[1].step([Losses(series="toy", value=1.0)])
    said = capsys.readouterr().out
    assert said.count("has no effect") == 1
    assert "steps of busy" in said


def test_an_adapter_that_declares_nothing_honors_nothing(
    known: Adapters, make: Callable[..., Worker], capsys: pytest.CaptureFixture[str]
) -> None:
    class Undeclared:
        snapshots = surroundings = None

        def detach(self) -> None:
            pass

    def begin(job: Job) -> Handle:
        jobs.append(job)
        return cast(Handle, Undeclared())

    jobs: list[Job] = []
    worker = make(Config(redact=("label",)))
    worker.attach(Toy().spec, begin)
    jobs[0].step()
    assert "redact has no effect: inputs of toy" in capsys.readouterr().out


class Other(Model):
    """A model of another framework."""

    __module__ = "others"


Other.__module__ = "others.models"


def test_models_of_two_frameworks_make_one_run_with_one_sequence_of_steps(
    known: Adapters, tmp_path: Path
) -> None:
    known["others"] = Toy("others", kind=Other)
    first, second = Model(), Other()
    one = mothtrap.watch(first, runs_dir=str(tmp_path))
    two = mothtrap.watch(second)
    for model in (first, first, second, first, second):
        model.fit_round()
    assert one.path == two.path
    one.close()
    second.fit_round()  # the other watch is open, and the run with it
    two.close()
    assert one.path is not None
    stored = mothtrap.open_run(one.path)
    assert (stored.steps, stored.workers, stored.state) == (6, (0,), "finished")
    assert len(list(tmp_path.iterdir())) == 1
    (started,) = stored.observations(WorkerStarted)
    assert started.versions == {"tests": "1.0", "others": "1.0"}


def test_models_of_one_framework_have_runs_of_their_own(known: Adapters, tmp_path: Path) -> None:
    first, second = Model(), Model()
    with (
        mothtrap.watch(first, runs_dir=str(tmp_path)) as one,
        mothtrap.watch(second, runs_dir=str(tmp_path)) as two,
    ):
        first.fit_round()
        second.fit_round()
    assert one.path != two.path


def test_an_adapter_that_refines_another_is_attached_after_it(
    known: Adapters, tmp_path: Path
) -> None:
    known["others"] = Toy("others", base="tests")
    model = Other()
    assert [each.framework for each in adapters.adapters_of(model)] == ["tests", "others"]
    with mothtrap.watch(model, runs_dir=str(tmp_path)) as watch:
        for _ in range(3):
            model.fit_round()
    assert watch.path is not None
    assert mothtrap.open_run(watch.path).steps == 3
    assert [known[name].calls[-1] for name in ("others", "tests")] == ["detach", "detach"]


def test_what_no_adapter_accepts_is_refused(known: Adapters) -> None:
    with pytest.raises(TypeError, match="mothtrap knows models of: tests"):
        mothtrap.watch(Toy())


def test_a_process_of_a_run_has_one_worker_for_all_its_frameworks(
    known: Adapters, attempt: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known["others"] = Toy("others")
    monkeypatch.setattr(startup, "load", lambda name: known[name].spec)
    monkeypatch.setattr(startup, "_process", [])
    monkeypatch.setenv("MOTHTRAP_RUN_DIR", str(attempt))
    for framework in ("others", "tests"):
        startup.attach(framework)
    worker = startup.process_worker()
    assert worker is not None
    made = [known[name].jobs[0].step() for name in ("others", "tests", "others")]
    with mothtrap.watch(Model()) as watch:  # within the run it only sets the meaning of `step`
        watch.step(loss=0.5)
    startup.finish(worker)
    assert [steps.start for steps in made] == [0, 1, 2]
    stored = mothtrap.open_run(attempt.parent)
    assert (stored.steps, stored.workers) == (4, (0,))
    (started,) = stored.observations(WorkerStarted)
    assert started.framework == "others"


def test_a_forked_child_of_a_worker_abandons_every_handle(
    make: Callable[..., Worker], attempt: Path
) -> None:
    toys = [Toy("tests"), Toy("others")]
    worker = make()
    jobs = [attached(worker, toy) for toy in toys]
    jobs[0].step()
    assert not worker.forked()
    assert [toy.calls[-1] for toy in toys] == ["abandon", "abandon"]
    assert not any(job.live for job in jobs)
    assert len(layout.workers(attempt)) == 1


def test_a_restarted_job_goes_on_where_it_was(make: Callable[..., Worker], attempt: Path) -> None:
    worker = make()
    worker.job.resumption = lambda digests, own: Resumed(
        step=own or 0, evidence=str(digests), evaluations=0
    )
    job = attached(worker, Toy())
    job.resume({"model": "abc"}, 12)
    job.step()
    worker.close()
    stored = mothtrap.open_run(attempt.parent)
    assert stored.observations(Resumed)[0].evidence == "{'model': 'abc'}"
    assert stored.timeline.keys("train")[0].step == 12


class Taker:
    """Takes snapshots in name only."""

    __slots__ = ("active", "orders", "sink")

    def __init__(self) -> None:
        self.active, self.orders = True, list[SnapshotOrder]()
        self.sink: SnapshotSink | None = None

    def order(self, order: SnapshotOrder) -> bool:
        self.orders.append(order)
        return True

    def connect(self, sink: SnapshotSink) -> None:
        self.sink = sink


def test_snapshots_are_ordered_of_the_handle_that_takes_them(
    make: Callable[..., Worker], attempt: Path
) -> None:
    taker = Taker()
    worker = make()
    jobs = [attached(worker, Toy("others")), attached(worker, Toy("tests", snapshots=taker))]
    jobs[0].step()
    control_inbox.send(attempt.parent, SnapshotRequest(id="r1", attempt=1))
    assert worker._requests is not None
    worker._requests.look()
    jobs[1].scalar("loss", "", math.nan)
    for _ in range(2):
        jobs[0].step()
    worker.close()
    assert taker.sink is not None
    assert ("request", "r1") in [(order.reason, order.request) for order in taker.orders]


def test_a_request_for_a_snapshot_that_none_can_take_is_answered(
    make: Callable[..., Worker], attempt: Path
) -> None:
    worker = make()
    job = attached(worker, Toy())
    job.step()
    control_inbox.send(attempt.parent, SnapshotRequest(id="r1", attempt=1))
    assert worker._requests is not None
    worker._requests.look()
    job.step()
    worker.close()
    (answer,) = mothtrap.open_run(attempt.parent).observations(SnapshotKept)
    assert answer.request == "r1"
    assert "takes no snapshots" in answer.error


def test_a_replay_goes_to_the_adapter(
    known: Adapters, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = ReplayPlan(step=4, workers={0: "snapshots/4/w0"}, scratch=str(tmp_path))
    (tmp_path / "plan.json").write_bytes(msgspec.json.encode(plan))
    monkeypatch.setenv(PLAN_VARIABLE, str(tmp_path / "plan.json"))
    monkeypatch.setattr(startup, "load", lambda name: known[name].spec)
    monkeypatch.setattr(startup, "_begun", set())
    startup.attach("tests")
    assert known["tests"].calls == ["replay step 4"]


FRAMEWORK = """
    hook = None
    def fit_round(loss):
        if hook is not None:
            hook(loss)
        return loss
"""
ADAPTER = """
    import little
    from mothtrap.core.adapters import Environment, Losses
    from mothtrap.core.reports import Reports

    FRAMEWORK, REQUIRES, ARRAYS, REPORTS, STEPS = "little", "little", "numpy", Reports(), "own"

    def refines():
        return None

    def accepts(target):
        return False

    def environment():
        return Environment(versions={"little": "0.1"})

    class Handle:
        __slots__ = ("job",)
        snapshots = None

        def __init__(self, job):
            self.job = job
            little.hook = lambda loss: job.contain(
                job.step, [Losses(series="rounds", value=loss)]
            )

        def surroundings(self):
            return None

        def detach(self):
            little.hook = None

        def abandon(self):
            self.job.live = False

    attach_process = Handle
"""
SCRIPT = """
    import torch, little

    torch.manual_seed(0)
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train(steps):
        for _ in range(steps):
            optimizer.zero_grad()
            model(torch.ones(4, 2)).pow(2).mean().backward()
            optimizer.step()

    train(3)
    for number in range(4):
        little.fit_round(1.0 / (number + 1))
    train(2)
"""


def test_two_frameworks_in_a_script_make_one_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "plugins"
    folder.mkdir()
    install(folder, monkeypatch, {"mothtrap.adapters": {"little": dedent(ADAPTER)}})
    (folder / "little.py").write_text(dedent(FRAMEWORK), encoding="utf-8")
    (tmp_path / "both.py").write_text(dedent(SCRIPT), encoding="utf-8")
    paths = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    outcome = run(
        observed(["both.py"], runs_dir=tmp_path / "runs", name="both"),
        cwd=tmp_path,
        env=environment(PYTHONPATH=paths),
    )
    assert outcome.returncode == 0, outcome.stderr
    assert outcome.stderr.count("the adapter theirs.little has no ADAPTER") == 1
    stored = mothtrap.open_run(tmp_path / "runs" / "both")
    assert (stored.steps, stored.workers, stored.tool_errors) == (9, (0,), ())
    own = {series.of.split()[-1]: series.steps_S.tolist() for series in stored.scalars("loss")}
    assert own == {"SGD": [0, 1, 2, 7, 8], "rounds": [3, 4, 5, 6]}
    (started,) = stored.observations(WorkerStarted)
    assert started.framework == "torch"
    assert started.versions["little"] == "0.1"
    assert stored.observations(WorkerEnded)[0].steps == 9


def test_an_adapter_in_the_old_form_works_and_says_what_to_change(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[object] = []
    old = ModuleType("theirs.old")
    vars(old).update(
        FRAMEWORK="old",
        REQUIRES="old>=1",
        ARRAYS="numpy",
        REPORTS=Reports(scalars=frozenset({"loss"})),
        STEPS="base",
        refines=lambda: "torch",
        accepts=lambda target: isinstance(target, Model),
        attach=lambda job, targets: asked.append(targets),
        attach_process=lambda job: asked.append(job),
        attach_replay=lambda plan: asked.append(plan),
        environment=lambda: Environment(rank=3),
    )
    monkeypatch.setattr(adapters, "_old_forms", set())
    spec = adapters.spec_of(old)
    assert adapters.spec_of(old).framework == "old"
    assert capsys.readouterr().err.count("theirs.old has no ADAPTER") == 1
    assert (spec.refines, spec.steps) == ("torch", "base")
    assert (spec.requires, spec.arrays) == ("old>=1", "numpy")
    assert spec.reports.scalars == {"loss"}
    assert spec.accepts(Model())
    assert not spec.accepts(3)
    assert spec.environment().rank == 3
    job, model, plan = cast(Job, object()), Model(), cast(ReplayPlan, object())
    spec.attach(job, (model, "an optimizer"))
    spec.attach(job)
    spec.replay(plan)
    assert asked == [(model, "an optimizer"), job, plan]


def test_a_module_with_a_spec_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    module, spec = ModuleType("theirs.little"), Toy().spec
    vars(module)["ADAPTER"] = spec
    assert adapters.spec_of(module) is spec
    assert not capsys.readouterr().err


def test_a_module_without_a_spec_is_named() -> None:
    with pytest.raises(PluginError, match=r"theirs\.little cannot be used: it has no ADAPTER"):
        adapters.spec_of(ModuleType("theirs.little"))


def test_an_adapter_is_registered_under_the_name_of_its_framework(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = """
    from mothtrap.tracing.handle import AdapterSpec, BaseHandle

    ADAPTER = AdapterSpec(framework="little", handle=BaseHandle, requires="little")
    """
    install(tmp_path, monkeypatch, {"mothtrap.adapters": {"litle": dedent(source)}})
    with pytest.raises(PluginError, match=r"registered as 'litle', but .*framework='little'"):
        adapters.load("litle")
