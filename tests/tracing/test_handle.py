"""The base of handles and the declaration of an adapter."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from dataclasses import replace

import pytest

from mothtrap.core.adapters import Environment, Given, Job
from mothtrap.core.options import WITHOUT_SNAPSHOTS
from mothtrap.testing.adapters import Process
from mothtrap.tracing.handle import AdapterSpec, BaseHandle
from mothtrap.tracing.replacements import Replacements


class Model:
    def update(self) -> str:
        return "the original"


class Optimizer:
    pass


class Watching(BaseHandle):
    """Makes a step of each update; the entries of `ended` come from the end."""

    def __init__(self, job: Job, targets: tuple[object, ...] = ()) -> None:
        self.ended: list[bool] = []
        super().__init__(job, targets)

    def install(self, replacements: Replacements) -> None:
        replacements.around(Model, "update", None, self._updated)

    def _updated(self, model: Model, *_: object) -> None:
        if self.watches(model):
            self.job.step()

    def end(self) -> None:
        self.ended.append(is_replaced())


ORIGINAL = vars(Model)["update"]


def is_replaced() -> bool:
    return vars(Model)["update"] is not ORIGINAL


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    yield
    Model.update = ORIGINAL  # type: ignore[method-assign]


SPEC = AdapterSpec(
    framework="toy", handle=Watching, requires="toy", watched=(Model,), beside=(Optimizer,)
)


def test_functions_are_replaced_until_the_handle_is_detached() -> None:
    process = Process("numpy")
    with process.watched(SPEC) as handle:
        assert Model().update() == "the original"
        assert is_replaced()
    assert not is_replaced()
    assert isinstance(handle, Watching)
    assert handle.ended == [True]  # while the functions were still replaced
    assert len(process.steps()) == 1


def test_only_targets_are_watched() -> None:
    process = Process("numpy")
    own, other = Model(), Model()
    with process.watched(SPEC, lambda job: SPEC.attach(job, (own, Optimizer()))):
        other.update()
        own.update()
    assert len(process.steps()) == 1


def test_an_installation_that_fails_leaves_nothing_behind() -> None:
    class Failing(Watching):
        def install(self, replacements: Replacements) -> None:
            super().install(replacements)
            raise RuntimeError("gone")

    process = Process("numpy")
    with pytest.raises(RuntimeError, match="gone"), process.watched(replace(SPEC, handle=Failing)):
        pass
    assert not is_replaced()
    assert not process.job.members


def test_a_forked_child_observes_nothing() -> None:
    process = Process("numpy")
    with process.watched(SPEC) as handle:
        handle.abandon()
        assert not is_replaced()
        Model().update()
    assert not process.steps()


def test_numbers_of_the_user_are_recorded() -> None:
    process = Process("numpy")
    with process.watched(SPEC) as handle:
        handle.step(Given(loss=2.0, numbers={"accuracy": 0.5}))
        Model().update()
    numbers = {scalar.name: scalar.value for scalar in process.records[0].scalars}
    assert numbers["accuracy"] == 0.5


def test_usual_answers() -> None:
    process = Process("numpy")
    with process.watched(SPEC) as handle:
        assert handle.snapshots is handle.surroundings() is None
        assert not handle.stop("a finding")
        assert handle.honors == WITHOUT_SNAPSHOTS


@pytest.mark.parametrize(
    ("spec", "targets", "expected"),
    [
        (SPEC, (Model(), 3), "cannot watch a int with toy: expected Model or Optimizer"),
        (replace(SPEC, watched=()), (Model(),), "cannot watch a Model with toy: expected Opt"),
        (replace(SPEC, watched=(), beside=()), (Model(),), "with toy: use `mothtrap run`"),
        (
            replace(SPEC, watched=lambda _: False),
            (Model(),),
            "cannot watch a Model with toy: expected objects of toy",
        ),
        (replace(SPEC, refines="torch"), (Optimizer, Model()), "cannot watch a type with toy"),
    ],
)
def test_objects_that_cannot_be_watched_are_refused(
    spec: AdapterSpec, targets: tuple[object, ...], expected: str
) -> None:
    process = Process("numpy")
    with pytest.raises(TypeError, match=expected):
        process.adapters.attach(spec, lambda job: spec.attach(job, targets))
    assert not process.job.members


def test_what_stands_beside_a_model_is_checked_by_the_framework_below() -> None:
    process, model = Process("numpy"), Model()
    spec = replace(SPEC, refines="torch")
    handle = process.adapters.attach(spec, lambda job: spec.attach(job, (model, 3)))
    process.adapters.detach(handle)


def test_the_usual_place_is_a_process_alone_with_the_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert SPEC.environment() == Environment(versions={"toy": ""})
    module = types.SimpleNamespace(__version__="1.2")
    monkeypatch.setitem(sys.modules, "toy", module)  # type: ignore[arg-type]
    assert SPEC.environment() == Environment(versions={"toy": "1.2"})
    here = Environment(rank=1, size=2)
    assert replace(SPEC, place=lambda: here).environment() is here


class Child(Model):
    pass


@pytest.mark.parametrize(
    ("owner", "name", "reason"),
    [
        (Model, "updat", r"Model defines no 'updat' .*did you mean 'update'"),
        (Child, "update", "Child inherits 'update' from Model; replace it there"),
        (types, "update", "types defines no 'update'"),
    ],
)
def test_a_function_that_is_not_there_is_named(owner: object, name: str, reason: str) -> None:
    with pytest.raises(AttributeError, match=reason):
        Replacements().around(owner, name, None, None)


def test_another_version_of_the_framework_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Older(Watching):
        def install(self, replacements: Replacements) -> None:
            replacements.around(Model, "update_all", None, self._updated)

    spec = replace(SPEC, handle=Older, requires="toy>=2")
    reason = r"Model defines no 'update_all'.*; the adapter requires toy>=2, found toy "
    with (
        pytest.raises(AttributeError, match=f"{reason}of an unknown version"),
        Process("numpy").watched(spec),
    ):
        pass
    monkeypatch.setitem(sys.modules, "toy", types.SimpleNamespace(__version__="1.4"))
    with pytest.raises(AttributeError, match=rf"{reason}1\.4"), Process("numpy").watched(spec):
        pass
