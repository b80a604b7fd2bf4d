"""A malformed rule is refused with the name of the part, and what to write instead."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import pytest
from tests.rules.windows import window

import mothtrap
from mothtrap.core.errors import ConfigError
from mothtrap.core.rule_form import OF_NEEDS
from mothtrap.statistics.summary import STATISTICS

NEED = mothtrap.Need(scalars=("loss",))


def classes(fields: dict[str, Any] | None = None, **body: Any) -> Any:
    """Return a rule class with some attributes and some annotated names."""
    parts = {"check": lambda self, window: [], "__annotations__": fields or {}, **body}
    return type("OddRule", (mothtrap.Rule,), parts)


def need(**fields: Any) -> dict[str, Any]:
    return {"needs": [mothtrap.Need(**fields)]}


async def waits(self: object, window: object) -> list[object]:
    return []


def raises(self: object) -> None:
    raise ZeroDivisionError("planted")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"name": "odd"}, r"OddRule sets `name`: .* remove `name`"),
        ({"name": lambda self: "odd"}, r"sets `name`"),
        ({"name": classmethod(lambda cls: "odd")}, r"sets `name`"),
        ({"doc": "odd"}, r"sets `doc`"),
        ({"fixes": ("Do this.",)}, r"sets `fixes`: .*`What to do`"),
        ({"severity": "fatal"}, r"`severity` is 'fatal'; expected 'error', 'warning' or 'info'"),
        ({"severity": 3}, r"`severity` is 3; expected 'error'"),
        ({"title": 3}, r"`title` is 3; expected a string"),
        ({"needs": "loss"}, r"`needs` is 'loss'; expected a list of mothtrap\.Need, such as"),
        ({"needs": NEED}, r"`needs` is Need\(.*; expected a list"),
        ({"needs": None}, r"`needs` is None; expected a list"),
        ({"needs": ["loss"]}, r"`needs` is \['loss'\]; expected a list of mothtrap\.Need"),
        ({"needs": property(lambda self: [NEED])}, r"`needs` is <property"),
        ({"explains": "loss_diverging"}, r"`explains` is 'loss_diverging'; expected names"),
        ({"passes": "yes"}, r"`passes` is 'yes'; expected True or False"),
        (need(scalars="loss"), r"`scalars` is 'loss'; expected .*: scalars=\('loss',\)"),
        (need(kinds=("weights",), statistics=("l2",)), r"names 'weights', .*did you mean 'weight"),
        (
            need(kinds=("weight",), statistics=("l3",)),
            r"`statistics` names 'l3', .*valid names: .*l2",
        ),
        (need(kinds=("weight",)), r"it has `kinds` but no `statistics`; give both"),
        (need(statistics=("l2",)), r"it has `statistics` but no `kinds`; give both"),
        (need(scalars=("loss",), every=0), r"`every` is 0; expected a whole number of steps"),
        (need(scalars=("loss",), every="2"), r"`every` is '2'; expected a whole number"),
        (need(scalars=("loss",), modes=("training",)), r"`modes` names 'training'.*'train'"),
        (need(facts=("LossCall",)), r"`facts` is \('LossCall',\); expected a tuple of classes"),
        (need(scalars=("loss",), schedule=3), r"`schedule` is 3; expected mothtrap\.Schedule"),
        (
            need(scalars=("loss",), schedule=mothtrap.Schedule(every=0)),
            r"`schedule`: every must be 1 step or more",
        ),
        ({"check": 3}, r"`check` is 3; write `def check\(self, window\):`"),
        ({"check": waits}, r"`check` is async"),
        ({"check": lambda self: []}, r"`check` cannot be called with a window"),
        ({"check": staticmethod(lambda window: [])}, r"`check` is <staticmethod"),
        ({"__init__": raises}, r"cannot be created: ZeroDivisionError: planted; .*no __init__"),
        ({"fields": {"limit": float}}, r"write `limit: float = 1\.0`"),
        ({"fields": {"most": tuple}, "most": ()}, r"the threshold `most` is \(\); expected a num"),
        (
            {"fields": {"severity": str}, "severity": "error"},
            r"every rule has `severity`, .*rename",
        ),
        ({"fields": {"waits": bool}, "waits": True}, r"every rule has `waits`, .*rename"),
    ],
)
def test_a_wrong_part_of_a_class_is_refused_by_its_name(body: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        mothtrap.rule("LOS903")(classes(**body))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"severity": "fatal"}, r"told: `severity` is 'fatal'; expected 'error'"),
        ({"severity": ""}, r"`severity` is ''"),
        ({"needs": NEED}, r"told: `needs` is Need"),
        ({"needs": None}, r"told: `needs` is None"),
        ({"explains": "loss_diverging"}, r"`explains` is"),
        ({"passes": 1}, r"`passes` is 1"),
    ],
)
def test_a_wrong_argument_of_the_decorator_is_refused_by_its_name(
    given: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):

        @mothtrap.rule("LOS903", **given)
        def told(window):
            return []


@pytest.mark.parametrize("name", ["name", "severity", "check", "_limit"])
def test_a_threshold_has_no_name_of_a_part_of_every_rule(name: str) -> None:
    namespace: dict[str, Any] = {}
    exec(f"def told(window, *, {name}=1.0):\n    return []", namespace)
    with pytest.raises(ConfigError, match=rf"`{name}`"):
        mothtrap.rule("LOS903")(namespace["told"])


@pytest.mark.parametrize("code", [None, 3, lambda window: [], ["LOS901"]])
def test_a_code_that_is_no_text_is_refused(code: Any) -> None:
    with pytest.raises(
        ConfigError, match=r"such as ACT901; got .*write @mothtrap\.rule\('ACT901'\)"
    ):
        mothtrap.rule(code)


def test_a_class_may_say_all_of_it_in_its_body() -> None:
    @dataclasses.dataclass(frozen=True)
    class Loud(mothtrap.Rule):
        """It is loud."""

        severity: ClassVar[Any] = "error"
        needs = [NEED]
        limit: float = 2.0

        def check(self, window):
            yield mothtrap.Found(step=0, message=f"above {self.limit}")

    made = mothtrap.rule("LOS903")(Loud)
    [finding] = made(limit=3.0).check(window(steps=1))
    assert (finding.severity.value, finding.message, finding.name) == ("error", "above 3.0", "loud")
    assert made.needs == (NEED,)


def test_needs_may_name_every_statistic_of_a_tensor() -> None:
    assert set(OF_NEEDS) == set(STATISTICS)
