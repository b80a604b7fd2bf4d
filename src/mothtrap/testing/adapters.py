"""Base class for tests of an adapter."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, cast

from mothtrap.capture.containment import Containment
from mothtrap.capture.readiness import Looks
from mothtrap.capture.recorder import Recorder
from mothtrap.capture.selection import streams
from mothtrap.core import options, registry
from mothtrap.core.adapters import Given, Handle, Job, Losses
from mothtrap.core.collections import Collection
from mothtrap.core.config import Config
from mothtrap.core.fact import Fact, tag_of
from mothtrap.core.facts.captures import Blind, SettingIgnored, ToolError
from mothtrap.core.facts.guards import StepGuarded
from mothtrap.core.findings import Finding, RuleState
from mothtrap.core.measured import MEASURED
from mothtrap.core.needs import facts_of, required
from mothtrap.core.records import StepRecord
from mothtrap.core.reports import Reports
from mothtrap.core.rule import Rule
from mothtrap.core.standing_needs import NEEDS_OF_THE_JOB
from mothtrap.core.steps import Mode
from mothtrap.monitor.catalogue import load_rules
from mothtrap.monitor.coverage import EXEMPT
from mothtrap.monitor.monitor import Monitor
from mothtrap.session import adapters
from mothtrap.session.attached import AttachedAdapters
from mothtrap.tracing.handle import AdapterSpec
from mothtrap.tracing.jobs.adapter_job import AdapterJob
from mothtrap.tracing.jobs.process_job import ProcessJob

OF_THE_JOB = facts_of(NEEDS_OF_THE_JOB)
STEP_SCALARS = frozenset({"skipped", "micro_batches", "step_s", "own_s"})
"""Numbers that every step has, in every framework."""
ANYWAY = STEP_SCALARS | OF_THE_JOB | {Mode.PREDICT}
"""Facts that every adapter records; facts between steps have the mode `predict`."""


ASKED: dict[str, Any] = {
    "on_nonfinite": "skip",
    "max_gradient_norm": 1e30,
    "snapshot_at": (1,),
    "digests": True,
    "redact": ("nothing",),
}
"""Every option that an adapter must support; no option changes a healthy training run."""


class Process:
    """A process whose training runs are recorded in memory, in full.

    Args:
        arrays: the module of `mothtrap.statistics` for its arrays.
        overhead: 0 = every step is recorded in full; otherwise as in a job with that budget.
        **settings: as in the configuration file.

    Attributes:
        job: the job of the process.
        said: lines printed for the user.
        records: records of steps and evaluations, in order.
    """

    def __init__(self, arrays: str, *, overhead: float = 0.0, **settings: Any) -> None:
        self.said: list[str] = []
        self.records: list[StepRecord] = []
        everything: dict[str, Any] = {
            "capture": "everything",
            "collections": {"all": Collection(tensors=("*:*",), statistics=("l2",))},
        }
        config = Config(overhead=overhead, **settings, **({} if overhead else everything))
        self.recorder: Recorder[Any] = Recorder(
            registry.load("mothtrap.statistics", arrays),
            streams(config, [need for rule in load_rules(config) for need in rule.needs]),
            Containment(self.said.append),
            overhead=overhead,
            on_first_step=lambda: self.recorder.sinks.append(self),
            looks=Looks(),
        )
        self.job = ProcessJob(self.recorder, config)
        self.adapters = AttachedAdapters(self.job)

    def put(self, record: StepRecord, *, urgent: bool = False) -> None:  # noqa: ARG002
        """Store a record."""
        self.records.append(record)

    @contextmanager
    def watched(
        self, adapter: AdapterSpec, begin: Callable[[Job], Handle] | None = None
    ) -> Iterator[Handle]:
        """Watch all training in the block with an adapter, and with the adapter that it refines."""
        below = None
        if adapter.refines is not None:
            below = self.adapters.attach(adapters.load(adapter.refines))
        handle = self.adapters.attach(adapter, begin)
        try:
            yield handle
        finally:
            self.adapters.detach(handle)
            if below is not None:
                self.adapters.detach(below)
            self.end()

    def end(self) -> None:
        """Record the remaining data after the last step."""
        self.recorder.emit_facts(*self.recorder.looks.end(self.recorder.steps))

    def steps(self) -> list[tuple[int, tuple[str, ...]]]:
        """Return numbers and optimizers of all train steps, in order."""
        train = [record for record in self.records if record.key.mode is Mode.TRAIN]
        return [(record.key.step, record.optimizers) for record in train]

    def facts(self) -> list[Fact]:
        """Return all facts, in order."""
        return [fact for record in self.records for fact in record.observations]

    def findings(self) -> tuple[Finding, ...]:
        """Return the findings of all rules in these records."""
        monitor = Monitor(load_rules(Config()), every=1)
        for record in self.records:
            monitor.feed(record)
        monitor.finish()
        return monitor.findings

    def states(self) -> dict[str, RuleState]:
        """Return the state of every rule after these records, by name."""
        monitor = Monitor(load_rules(Config()), every=1)
        for record in self.records:
            monitor.feed(record)
        monitor.finish()
        return {status.name: status.state for status in monitor.statuses()}


class AdapterTests:
    """Tests for an adapter.

    Derive a test class from it::

        class TestToy(AdapterTests):
            adapter = toy_adapter.ADAPTER
            steps = 12
            replaced = (toy.Model,)

            def train(self):
                return toy.train(steps=12).tobytes()

            def reported(self):
                yield "loss and gradients", self.train

    Attributes:
        adapter: the tested adapter: `ADAPTER` of its module.
        steps: number of steps that `train` makes.
        replaced: modules and classes of the framework in which the adapter replaces functions.
        elsewhere: declared reports that need several processes, a launcher, or a device, with the
            name of the test that covers each.
    """

    adapter: ClassVar[AdapterSpec]
    steps: ClassVar[int]
    replaced: ClassVar[tuple[object, ...]] = ()
    elsewhere: ClassVar[Mapping[str, str]] = {}

    def train(self) -> bytes:
        """Train a small model deterministically from scratch, and return its weights as bytes."""
        raise NotImplementedError("train a small model, and return its weights as bytes")

    def reported(self) -> Sequence[Callable[[], object]]:
        """Return training functions that together produce every report of the adapter."""
        raise NotImplementedError("return training functions that produce every report")

    def test_training_is_bit_identical(self) -> None:
        """Weights are bit-identical without the adapter, with it, and after it is detached."""
        plain = self.train()
        assert plain == self.train(), "train() gives different weights each time: seed it"
        process, weights = self._watched(self.train)
        assert weights == plain, "the observed training gave different weights"
        assert process.records, "nothing was recorded"
        self._check_nothing_failed(process)
        assert self.train() == plain, (
            "training after the adapter was detached gave different weights"
        )

    def test_nothing_is_left_behind(self) -> None:
        """All replaced functions are restored after the handle is detached."""
        assert self.replaced, "name the modules and classes in which functions are replaced"
        before = [dict(vars(owner)) for owner in self.replaced]
        with Process(self.adapter.arrays).watched(self.adapter):
            during = [dict(vars(owner)) for owner in self.replaced]
        assert any(_differs(a, b) for a, b in zip(before, during, strict=True)), (
            "nothing is replaced in what `replaced` names"
        )
        for owner, old in zip(self.replaced, before, strict=True):
            left = _differs(old, dict(vars(owner)))
            assert not left, f"{owner} keeps {', '.join(left)}"

    def test_errors_do_not_reach_the_loop(self) -> None:
        """If mothtrap fails, the training continues and ends with the same weights."""
        plain = self.train()
        for name in ("step", "fact", "scalar", "evaluation", "define", "take", "wants", "event"):
            process = Process(self.adapter.arrays)

            def begin(job: Job, name: str = name) -> Handle:
                handle = self.adapter.attach(job)
                setattr(job, name, _fails)
                return handle

            with process.watched(self.adapter, begin):
                assert self.train() == plain, f"a failing {name}() changed the training"

    def test_steps_are_one_sequence(self) -> None:
        """Each step of the framework is recorded as one step, numbered from 0 without gaps."""
        process, _ = self._watched(self.train)
        numbers = [step for step, _ in process.steps()]
        assert numbers == list(range(self.steps))
        assert all(optimizers for _, optimizers in process.steps())
        evaluated = {record.key.step for record in process.records if record.key.mode is Mode.EVAL}
        assert evaluated <= set(range(self.steps + 1))

    def test_the_place_in_the_job_is_known(self) -> None:
        """A single process has no rank, or rank 0 in a world of size 1."""
        environment = self.adapter.environment()
        assert environment.rank in (None, 0)
        assert environment.size == 1
        assert environment.versions[self.adapter.framework]

    def test_reports_are_true(self) -> None:
        """Every declared report occurs at least once, and no undeclared report occurs.

        If this framework builds on another one, that framework's adapter declares its own reports.
        """
        seen = [self._reported(train) for train in self.reported()]
        declared, base = self.adapter.reports, self.adapter.refines
        below = adapters.load(base).reports if base is not None else Reports()
        for field in ("kinds", "scalars", "facts", "modes"):
            came = frozenset().union(*(getattr(one, field) for one in seen))
            came -= getattr(below, field) - getattr(declared, field)
            expected = frozenset(getattr(declared, field)) - ANYWAY
            apart = frozenset(part for part in expected if _name(part) in self.elsewhere)
            here = _named(came & apart)
            assert not here, f"{here} was reported here, not only elsewhere"
            more, never = _named(came - expected), _named(expected - came - apart)
            assert not more, f"its reports lack {field}: {more}"
            assert not never, f"declared {field} were never reported: {never}"

    def test_settings_have_an_effect_or_are_reported(self) -> None:
        """A setting that needs the adapter affects every step, or the run reports that it does not.

        An adapter declares the settings that it supports in `Handle.honors`.
        """
        process = Process(self.adapter.arrays, **ASKED)
        with process.watched(self.adapter):
            self.train()
            honored = cast(AdapterJob, process.job.members[process.job.stepping]).settings.honored
        self._check_nothing_failed(process)
        facts = process.facts()
        ignored = {fact.setting: fact for fact in facts if isinstance(fact, SettingIgnored)}
        wanted = options.asked(process.job.config)
        expected = {setting for option, setting in wanted.items() if option not in honored}
        assert ignored.keys() == expected, f"without effect: {ignored}; honored: {honored}"
        for fact in ignored.values():
            assert fact.step == 0, f"{fact.setting} is reported at step {fact.step} only"
            sentence = f"mothtrap: {fact.setting} has no effect: {fact.reason}"
            assert process.said.count(sentence) == 1, f"printed: {process.said}"
        if "on_nonfinite" in honored:
            self._check_steps_are_left_out()

    def _check_steps_are_left_out(self) -> None:
        """With a limit that every gradient norm exceeds, no step is applied."""
        process = Process(self.adapter.arrays, on_nonfinite="skip", max_gradient_norm=1e-30)
        with process.watched(self.adapter):
            self.train()
        guarded = [fact.step for fact in process.facts() if isinstance(fact, StepGuarded)]
        left = sorted(set(range(self.steps)) - set(guarded))
        assert not left, f"steps {left} are applied above max_gradient_norm"

    def test_two_adapters_make_one_run(self) -> None:
        """Steps of this framework and of a second framework form one sequence in one run."""
        process = Process(self.adapter.arrays)
        other = AdapterJob(process.job, "another", reports=Reports())
        other.step([Losses(series="another", value=1.0)])
        with process.watched(self.adapter):
            self.train()
            other.step([Losses(series="another", value=0.5)])
        made = process.steps()
        assert [step for step, _ in made] == list(range(self.steps + 2))
        assert [step for step, names in made if names == ("another",)] == [0, self.steps + 1]

    def test_a_blind_adapter_makes_no_rule_ok(self) -> None:
        """If only a decreasing loss is reported, only rules on losses are `ok`."""
        process = Process(self.adapter.arrays)
        reports = Reports(scalars=frozenset({"loss"}), modes=frozenset({Mode.TRAIN}))
        blind = AdapterJob(process.job, "blind", reports=reports)
        for step in range(600):
            blind.step([Losses(series="blind", value=0.99**step)])
        process.end()
        fine = {name for name, state in process.states().items() if state is RuleState.OK}
        of_losses = {rule.name() for rule in load_rules(Config()) if _judges_losses(rule)}
        lies = fine - EXEMPT - of_losses
        assert not lies, f"ok without any data: {_named(lies)}"
        assert fine & of_losses, "no rule evaluated the loss"

    def test_a_loss_given_alone_makes_no_rule_ok(self) -> None:
        """If a script only reports losses, rules that need other data are not `ok`."""
        process = Process(self.adapter.arrays)
        with process.watched(self.adapter) as handle:
            for step in range(100):
                handle.step(Given(loss=0.99**step, makes_step=True))
        fine = {name for name, state in process.states().items() if state is RuleState.OK}
        of_losses = {rule.name() for rule in load_rules(Config()) if _judges_losses(rule)}
        lies = fine - EXEMPT - of_losses
        assert not lies, f"ok without any data: {_named(lies)}"

    def _watched(self, train: Callable[[], Any]) -> tuple[Process, Any]:
        process = Process(self.adapter.arrays)
        with process.watched(self.adapter):
            result = train()
        return process, result

    def _reported(self, train: Callable[[], object]) -> Reports:
        process, _ = self._watched(train)
        self._check_nothing_failed(process)
        own = [scalar.name for record in process.records for scalar in record.scalars]
        return Reports(
            kinds=frozenset(info.kind for r in process.records for _, info in r.defined),
            scalars=frozenset(own) & MEASURED - STEP_SCALARS,
            facts=frozenset(type(fact) for fact in process.facts()) - OF_THE_JOB,
            modes=frozenset(record.key.mode for record in process.records) - {Mode.PREDICT},
        )

    def _check_nothing_failed(self, process: Process) -> None:
        failed = [fact.error for fact in process.facts() if isinstance(fact, ToolError)]
        blind = [fact for fact in process.facts() if isinstance(fact, Blind)]
        failed += [f"{fact.what}: {fact.reason}" for fact in blind if "failed" in fact.reason]
        assert not failed, "mothtrap failed: " + "; ".join(failed)


def _differs(before: dict[str, object], after: dict[str, object]) -> list[str]:
    names = before.keys() | after.keys()
    return sorted(name for name in names if before.get(name) is not after.get(name))


def _judges_losses(rule: Rule) -> bool:
    return all(
        not need.kinds and not need.facts and set(need.scalars) <= {"loss"}
        for alternatives in required(rule.needs)
        for need in alternatives
    )


def _fails(*_: object, **__: object) -> Any:
    raise RuntimeError("planted: mothtrap fails here")


def _named(parts: Iterable[Any]) -> str:
    return ", ".join(sorted(map(_name, parts)))


def _name(part: Any) -> str:
    return tag_of(part) if isinstance(part, type) else str(part)
