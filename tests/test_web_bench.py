"""A small run of the page benchmark, without a browser and TensorBoard."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
from bench import web as bench
from bench import web_runs

pytest.importorskip("uvicorn", reason="the extra web is not installed")


def test_every_answer_is_timed_first_and_again(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "browser", lambda url, run, times: None)
    monkeypatch.setattr(bench, "tensorboard", lambda run, folder: None)
    monkeypatch.setattr(bench, "chromium", lambda: nullcontext(None))
    small = ["--steps", "600", "--tensors", "9", "--wide", "40", "--points", "900"]
    bench.main([*small, "--map-rows", "6", "--map-columns", "8", "--times", "1"])
    printed = capsys.readouterr().out
    for said in (
        "facts of the run, first, ms",
        "zoom of a tensor, again",
        "curve of all points, again",
        "heatmap, packed, kB",
        "memory afterwards, MB",
    ):
        assert said in printed


def test_the_list_of_runs_is_measured_in_a_browser(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_runs, "SETTLES_S", 0.0)
    web_runs.main(["--runs", "3", "--steps", "5", "--times", "1"])
    printed = capsys.readouterr().out
    if "no browser" not in printed:
        for said in ("first contentful paint", "all runs listed with their verdict", "filter"):
            assert said in printed
