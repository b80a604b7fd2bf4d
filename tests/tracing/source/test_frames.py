from __future__ import annotations

import linecache
import sys
import textwrap
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

import pytest
import torch

from mothtrap.tracing.source import frames


class Backward:
    """Imitates a loss: arithmetic returns it, and `backward` reads the caller's frame."""

    def __init__(self) -> None:
        self.caller: FrameType | None = None

    def backward(self, *_: object) -> None:
        self.caller = sys._getframe(1)

    def __truediv__(self, _: object) -> Backward:
        return self

    __iadd__ = __itruediv__ = __add__ = __mul__ = __truediv__


@pytest.fixture
def assigned(tmp_path: Path) -> Callable[[str], int | None]:
    """Run a script that calls `backward` of `LOSS`; return the line of its assignment."""

    def run(source: str) -> int | None:
        path = tmp_path / "script.py"
        path.write_text(textwrap.dedent(source), encoding="utf-8")
        linecache.checkcache()
        loss = Backward()
        values: dict[str, Any] = {"compute": lambda *_: loss, "scale": lambda _: loss}
        exec(compile(path.read_text(), str(path), "exec"), values)
        assert loss.caller is not None
        place = frames.assigned_at(loss.caller)
        if place is None:
            return None
        file, line = place.rsplit(":", 1)
        assert file.endswith("script.py")
        return int(line)

    return run


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("loss = compute()\nloss.backward()\n", 1),
        ("n = 4\nloss = compute()\nother = 3\n(loss / n).backward()\n", 2),
        ("loss = compute()\nscale(loss).backward()\n", 1),
        ("loss: object = compute()\nloss.backward()\n", 1),
        ("loss = compute()\nloss = loss / 2\nloss /= 2\nloss.backward()\n", 1),
        ("out, loss = 1, compute()\nloss.backward()\n", 1),
        ("loss = 0\nloss = compute()\nloss.backward()\n", 2),
        ("loss = compute(\n    1,\n    2,\n)\nloss.backward(\n)\n", 1),
        ("if (loss := compute()):\n    loss.backward()\n", 1),
        ("loss = compute(); loss.backward()\n", 1),
        ("compute().backward()\n", None),
        ("if scale:\n    loss = compute()\nelse:\n    loss = scale(1)\nloss.backward()\n", None),
        ("if scale:\n    loss = compute()\n    loss.backward()\nelse:\n    loss = scale(1)\n", 2),
        ("loss = scale(1)\nif scale:\n    loss = compute()\nloss.backward()\n", None),
        ("if scale:\n    loss = scale(1)\nloss = compute()\nloss.backward()\n", 3),
        ("loss = None\nif scale:\n    loss = compute()\nloss.backward()\n", 3),
        ("try:\n    loss = compute()\nexcept ValueError:\n    loss = 1\nloss.backward()\n", 2),
        ("if scale:\n    loss = compute()\n    if scale:\n        loss.backward()", 2),
        (
            "if not scale:\n    loss = scale(1)\nelse:\n    loss = compute()\n"
            "    if scale:\n        loss.backward()\n",
            4,
        ),
    ],
)
def test_finds_the_line_that_computes_the_loss(
    assigned: Callable[[str], int | None], source: str, line: int | None
) -> None:
    assert assigned(source) == line


def test_looks_in_the_function_that_calls_backward(
    assigned: Callable[[str], int | None],
) -> None:
    source = """\
    def first():
        loss = compute(1)
        return loss

    def second():
        loss = compute(2)
        def unrelated():
            loss = compute(3)
        loss.backward()

    second()
    """
    assert assigned(source) == 6


def test_looks_in_the_method_of_the_right_class(assigned: Callable[[str], int | None]) -> None:
    source = """\
    class Other:
        def step(self):
            loss = compute()
            loss.backward()

    class Trainer:
        def step(self):
            self.loss = compute()
            loss = self.loss
            loss.backward()

    Trainer().step()
    """
    assert assigned(source) == 9


def test_an_attribute_can_hold_the_loss(assigned: Callable[[str], int | None]) -> None:
    source = """\
    class Trainer:
        def step(self):
            self.loss = compute()
            self.count = compute()
            self.loss.backward()

    Trainer().step()
    """
    assert assigned(source) == 3


def test_a_loss_of_another_function_is_not_taken_for_the_script_s(
    assigned: Callable[[str], int | None],
) -> None:
    source = """\
    losses = [compute()]
    def evaluate():
        loss = compute()
    [loss.backward() for loss in losses]
    """
    assert assigned(source) is None


def test_code_without_source_has_no_line() -> None:
    loss = Backward()
    exec(compile("loss.backward()", "<no source here>", "exec"), {"loss": loss})
    assert loss.caller is not None
    assert frames.assigned_at(loss.caller) is None


def test_a_file_that_does_not_parse_any_more_has_no_line(tmp_path: Path) -> None:
    path = tmp_path / "edited.py"
    path.write_text("loss.backward()\n", encoding="utf-8")
    loss = Backward()
    exec(compile(path.read_text(), str(path), "exec"), {"loss": loss})
    path.write_text("loss = = broken\n", encoding="utf-8")
    linecache.checkcache()
    assert loss.caller is not None
    assert frames.assigned_at(loss.caller) is None


def test_the_user_frame_is_the_innermost_one_of_user_code() -> None:
    found: list[FrameType | None] = []
    hook = torch.nn.Linear(2, 2)
    hook.register_forward_hook(lambda *_: found.append(frames.user_frame()))
    hook(torch.ones(1, 2))
    assert found[0] is not None
    assert found[0].f_code.co_filename == __file__


def sent(code: CodeType) -> CodeType:
    """Return code as cloudpickle sends it to another process: without its file."""
    return code.replace(co_filename="<dynamic-code>")


def test_a_function_that_was_sent_is_found_in_its_module() -> None:
    def frame() -> FrameType:
        return sys._getframe()

    here = FunctionType(sent(frame.__code__), globals())()
    line = frame.__code__.co_firstlineno + 1
    assert frames.is_users(here)
    assert frames.location(here) == frames._place(__file__, line)
    moved = sent(frame.__code__).replace(co_firstlineno=1)  # of another file with this name
    assert frames.location(FunctionType(moved, globals())()).startswith("<dynamic-code>:")


def test_threads_of_a_pool_are_no_place() -> None:
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(frames.user_frame).result() is None


def test_frames_that_build_an_object_are_passed_over() -> None:
    class Part(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.place = frames.location(frames.user_frame(skip_init_of=self))

    class Whole(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.part = Part()

    line = Whole.__init__.__code__.co_firstlineno + 2
    assert Whole().part.place == f"{frames._place(__file__, line)}"


def test_places_are_relative_below_the_working_directory_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert frames._place(str(tmp_path / "a" / "train.py"), 3) == str(Path("a/train.py:3"))
    outside = str(tmp_path.parent / "train.py")
    assert frames._place(outside, 3) == f"{outside}:3"
    assert frames.location(None) is None


def _updated_in(source: str, tmp_path: Path) -> str | None:
    path = tmp_path / "updates.py"
    path.write_text(source, encoding="utf-8")
    found: list[str | None] = []

    def backward() -> None:
        found.append(frames.updated_at(sys._getframe(1)))

    exec(compile(source, str(path), "exec"), {"backward": backward})
    return found[0] and found[0].rpartition(":")[2]


@pytest.mark.parametrize(
    "update",
    [
        "p.data.add_(p.grad, alpha=0.1)",
        "p -= 0.1 * p.grad",
        "p.data = p.data - 0.1 * p.grad.data",
        "p.copy_(p - 0.1 * p.grad)",
    ],
)
def test_the_line_that_changes_weights_by_their_gradient_is_found(
    update: str, tmp_path: Path
) -> None:
    body = f"backward()\nif False:\n    p.grad.zero_()\n    p.grad = None\n    {update}\n"
    assert _updated_in(body, tmp_path) == "5"


def test_an_update_in_another_function_is_not_guessed(tmp_path: Path) -> None:
    source = "def step(p):\n    p -= p.grad\nx = 1\nbackward()\ny = abs(x)\n"
    assert _updated_in(source, tmp_path) is None
