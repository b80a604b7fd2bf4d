"""Internal failures are reported once, even if standard error is closed."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from mothtrap.capture.containment import Containment, say_on_stderr


def raised(text: str) -> Exception:
    try:
        raise ValueError(text)
    except ValueError as err:
        return err


def test_what_ended_a_training_left_its_block_or_was_caught_by_no_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    containment = Containment(print)
    monkeypatch.delattr(sys, "last_value", raising=False)
    assert containment.ended_by is None
    uncaught, left = raised("at the end"), raised("in the block")
    monkeypatch.setattr(sys, "last_value", uncaught, raising=False)
    assert containment.ended_by is uncaught
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    assert containment.ended_by is None  # a typing error does not end an interactive session
    containment.left_by = left
    assert containment.ended_by is left


def test_a_part_is_reported_once_and_is_off() -> None:
    said: list[str] = []
    containment = Containment(said.append)
    assert not containment.is_off("gradients")
    failure = containment.report("gradients", raised("odd shape"), step=7)
    assert failure is not None
    assert (failure.step, failure.part, failure.error) == (7, "gradients", "ValueError: odd shape")
    assert "in raised" in failure.traceback
    assert containment.report("gradients", raised("again")) is None
    assert containment.is_off("gradients")
    assert said == [
        "mothtrap: gradients failed and is switched off; training continues (ValueError: odd shape)"
    ]


def test_a_long_text_is_said_in_one_line_and_kept_in_the_traceback() -> None:
    said: list[str] = []
    failure = Containment(said.append).report("samples", raised("no kernel\nCPU: ...\n" * 3000))
    assert failure is not None
    assert said == [
        "mothtrap: samples failed and is switched off; training continues (ValueError: no kernel)"
    ]
    assert "CPU: ..." in failure.traceback
    assert len(failure.traceback) <= 64 << 10


def test_what_an_error_has_cost_is_said_with_it() -> None:
    said: list[str] = []
    error = raised("disk full")
    error.add_note("3 steps are lost")
    error.add_note("a long\nexplanation")
    Containment(said.append).report("writer", error)
    assert said[0].endswith("(ValueError: disk full; 3 steps are lost)")


def test_parts_fail_apart() -> None:
    said: list[str] = []
    containment = Containment(said.append)
    containment.report("gradients", raised("a"))
    containment.report("writer", raised("b"))
    assert not containment.is_off("losses")
    assert [failure.part for failure in containment.failures] == ["gradients", "writer"]
    assert len(said) == 2


class Gone(io.StringIO):
    """A stream without a reader."""

    def write(self, text: str) -> int:
        raise BrokenPipeError


def closed() -> io.StringIO:
    stream = io.StringIO()
    stream.close()
    return stream


@pytest.mark.parametrize("stream", [None, Gone(), closed()], ids=["none", "gone", "closed"])
def test_no_stream_to_say_it_on_is_no_error(
    stream: io.StringIO | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", stream)
    say_on_stderr("a finding")


def test_a_line_is_written_whole(capsys: pytest.CaptureFixture[str]) -> None:
    say_on_stderr("a finding")
    assert capsys.readouterr() == ("", "a finding\n")


def test_a_progress_bar_is_cleared_around_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Bar:
        @classmethod
        @contextmanager
        def external_write_mode(cls, file: io.TextIOBase) -> Iterator[None]:
            file.write("[cleared]")
            yield
            file.write("[drawn]")

    monkeypatch.setitem(sys.modules, "tqdm", types.SimpleNamespace(tqdm=Bar))
    say_on_stderr("a finding")
    assert capsys.readouterr().err == "[cleared]a finding\n[drawn]"


def test_a_module_that_is_only_called_tqdm_does_no_harm(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "tqdm", types.SimpleNamespace())
    say_on_stderr("a finding")
    assert capsys.readouterr().err == "a finding\n"


def test_a_line_that_the_script_has_begun_stays_in_one_piece() -> None:
    script = (
        "import sys; from mothtrap.capture.containment import say_on_stderr; "
        "sys.stderr.write('its own'); say_on_stderr('a finding'); sys.stderr.write(' words\\n')"
    )
    buffered = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, env=buffered)
    assert done.stderr == "a finding\nits own words\n"
