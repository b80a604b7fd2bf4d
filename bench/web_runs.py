"""Cost of the list of runs on the page: many runs listed, filtered, sorted, and drawn together.

Small runs are written; `mothtrap ui` serves them. The first server reads them all; a second one
finds them in the cache, and a headless Chromium measures it, within the page. Times are medians.

Run: python bench/web_runs.py [--runs N] [--steps N] [--times R]
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from bench import reading
from bench.web import chromium, say, served

GOALS_MS = {
    "first contentful paint": 500,
    "all runs listed with their verdict": 1000,
    "filter": 300,
    "ticked runs drawn": 1000,
}
TICKED = 200
SETTLES_S = 3.0
LISTED = """async (count) => {
    const frame = () => new Promise((done) => requestAnimationFrame(done));
    const status = () => document.querySelector("main [role=status]")?.textContent ?? "";
    while (!status().startsWith(count) || status().includes("not read")
        || !document.querySelector(".runs-table tbody tr")) await frame();
    return performance.now();
}"""
FILTERED = """async ([text, wanted]) => {
    const frame = () => new Promise((done) => requestAnimationFrame(done));
    const box = document.querySelector("[data-search]");
    const began = performance.now();
    box.value = text;
    box.dispatchEvent(new Event("input", { bubbles: true }));
    const status = () => document.querySelector("main [role=status]")?.textContent ?? "";
    while (!status().startsWith(wanted)) await frame();
    return performance.now() - began;
}"""
DRAWN = """async () => {
    const frame = () => new Promise((done) => requestAnimationFrame(done));
    const began = performance.now();
    document.querySelector('[aria-label="Select all on this page"]').click();
    const there = () => document.querySelector('[role=img][aria-label*="of 200 runs"]');
    while (!there()) await frame();
    await frame();
    return performance.now() - began;
}"""


def main(words: Sequence[str] | None = None) -> None:
    """Write runs, serve them twice, and print the cost of each part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--times", type=int, default=5)
    arguments = parser.parse_args(words)
    print(f"{platform.platform()}, Python {platform.python_version()}, {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder) / "runs"
        for number in range(arguments.runs):
            write(runs / f"run{number:04}", arguments.steps, number)
        print(f"{arguments.runs} runs of {arguments.steps} steps")
        print(f"load of the machine: {os.getloadavg()[0]:.1f}")
        time.sleep(SETTLES_S)  # a run that has just changed is not kept in the cache
        with served(runs, Path(folder)) as (url, _), chromium() as browser:
            if browser is None:
                print("no browser: Chromium or playwright is missing")
                return
            say(
                "all runs listed, read for the first time, ms",
                listed(browser, url, arguments.runs)[1],
            )
            time.sleep(SETTLES_S)  # until the last rows are written
        with served(runs, Path(folder)) as (url, _), chromium() as browser:
            taken: dict[str, list[float]] = {}
            for _ in range(arguments.times + 1):  # the first warms up
                for name, value in measured(browser, url, arguments.runs).items():
                    taken.setdefault(name, []).append(value)
            for name, values in taken.items():
                goal = GOALS_MS.get(name)
                say(
                    f"{name}, ms{f' (wanted: {goal})' if goal else ''}",
                    statistics.median(values[1:]),
                )


def write(folder: Path, steps: int, number: int) -> None:
    """Write a small finished run with its own parameters and loss."""
    from mothtrap.core.records import Scalar, StepRecord
    from mothtrap.core.runs import RunEnd
    from mothtrap.core.steps import StepKey
    from mothtrap.statistics.summary import WIDTH
    from mothtrap.store import layout

    log = reading.start(folder, pid=2**30, command=("train.py", "--lr", f"{number % 10 / 100}"))
    rows, none = np.empty((0, WIDTH)), np.empty(0, np.uint32)
    log.append(
        [
            StepRecord(
                key=StepKey(step=step, mode_step=step),
                wall_s=1e9 + step,
                tensor_T=none,
                summary_TF=rows,
                scalars=(Scalar("loss", "", (1 + number % 7) / (step + 1)),),
            )
            for step in range(steps)
        ]
    )
    log.close()
    layout.write_end(layout.attempt_folder(folder, 1), RunEnd(exit_code=0, ended_s=time.time()))


def listed(browser: Any, url: str, runs: int) -> tuple[Any, float]:
    """Open the list; return the page, and the time until every run is read."""
    page = browser.new_context().new_page()
    page.set_default_timeout(300_000)
    page.goto(f"{url}#/runs")
    return page, float(page.evaluate(LISTED, f"{runs:,} run"))


def measured(browser: Any, url: str, runs: int) -> dict[str, float]:
    """Return the milliseconds of each part, in a fresh page."""
    page, listed_ms = listed(browser, url, runs)
    paint = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
    some = sum(number % 10 >= 5 for number in range(runs))
    found = {
        "first contentful paint": page.evaluate(paint),
        "all runs listed with their verdict": listed_ms,
        "filter": page.evaluate(FILTERED, ["lr >= 0.05", f"{some:,} run"]),
        "filter taken back": page.evaluate(FILTERED, ["", f"{runs:,} run"]),
    }
    if runs >= TICKED:
        found["ticked runs drawn"] = page.evaluate(DRAWN)
    page.context.close()
    return found


if __name__ == "__main__":
    main()
