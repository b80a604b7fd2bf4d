"""A long export shows its progress."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

from mothtrap.exports import export_run
from mothtrap.reader.run import Run
from mothtrap.store import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ("chrome-trace", "exporting numbers of w0"),
        ("safetensors", "exporting tensors of w1"),
    ],
)
def test_an_export_tells_how_far_it_is(
    run: Run, form: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress, "LONG_BYTES", 1)
    monkeypatch.setattr("sys.stderr", terminal)
    export_run(run, form, tmp_path / "out")
    assert re.search(rf"{said} [^\r]*100%", terminal.getvalue())
