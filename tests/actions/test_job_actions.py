"""Actions on the job ask for what they are named after."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mothtrap.actions import capture, function, prune, snapshot, stop
from mothtrap.core.errors import ActionError
from mothtrap.testing.actions import WHERE, ActionTests, FakeJob, finding_event

CALLED: list[str] = []


def note(event: object) -> None:
    """Be called by an action."""
    CALLED.append(type(event).__name__)


def fail(_: object) -> None:
    """Raise an exception, as a user's function may."""
    raise KeyError("t0ken")


class TestStop(ActionTests):
    name = "stop"

    def good(self) -> Iterator[object]:
        yield None

    def bad(self) -> Iterator[object]:
        yield 3


class TestSnapshot(TestStop):
    name = "snapshot"


class TestPrune(ActionTests):
    name = "prune"

    def good(self) -> Iterator[object]:
        yield None
        yield "ray"

    def bad(self) -> Iterator[object]:
        yield "hyperopt"


class TestCapture(ActionTests):
    name = "capture"

    def good(self) -> Iterator[object]:
        yield "gradients:*"
        yield {"tensors": ["gradients:*"], "raw": True, "for_steps": 5}

    def bad(self) -> Iterator[object]:
        yield None
        yield {"tensors": ["gradients:*"], "for_steps": 0}
        yield {"tensrs": ["gradients:*"]}


class TestFunction(ActionTests):
    name = "function"

    def good(self) -> Iterator[object]:
        yield f"{__name__}:note"
        yield {"function": "train:on_event", "in_job": True}

    def bad(self) -> Iterator[object]:
        yield None
        yield "no_colon"
        yield "no_such_module_anywhere:f"
        yield {"function": "m:f", "in_job": "yes"}
        yield {"function": "m:f", "injob": True}


def _asked(module: object, settings: object) -> list[tuple[object, ...]]:
    job = FakeJob()
    for made in module.make(settings, WHERE):  # type: ignore[attr-defined]
        made.run(finding_event(), job, "d1")
    return job.asked


def test_each_asks_the_job() -> None:
    assert _asked(stop, None) == [("stop", "the loss is NaN", "")]
    assert _asked(prune, "optuna") == [("stop", "the loss is NaN", "optuna")]
    assert _asked(snapshot, None) == [("snapshot",)]
    ((name, added, steps),) = _asked(capture, {"tensors": ["gradients:*"], "for_steps": 5})
    assert (name, list(added), steps) == ("capture", ["on NUM001"], 5)
    ((name, called, event),) = _asked(function, {"function": "train:f", "in_job": True})
    assert (name, called, event.kind) == ("call", "train:f", "opened")


def test_a_function_is_called_here_with_the_event() -> None:
    CALLED.clear()
    assert _asked(function, f"{__name__}:note") == []
    assert CALLED == ["Event"]


def test_what_a_function_raises_is_a_failure_without_its_text() -> None:
    with pytest.raises(ActionError, match="raised KeyError") as caught:
        _asked(function, f"{__name__}:fail")
    assert "t0ken" not in str(caught.value)
