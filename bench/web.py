"""Cost of the page: the server's answers and memory, and the browser's time to readable content.

A run of many steps and tensors, a run of many tensors, and a run of a million losses are written;
`mothtrap ui` serves them in a separate process. Where Chromium and playwright are there, a
headless browser opens the page and a report. TensorBoard shows the same numbers, where it is
installed. Times are medians.

Run: python bench/web.py [--steps N] [--tensors T] [--wide W] [--points P] [--times R]
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import numpy as np
import psutil

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from bench import reading

LONG, WIDE, POINTS, MAP = "long", "wide", "points", "map"
TENSORBOARD_S = 300.0
"""Longest time for TensorBoard to load."""
GOALS = {
    "first contentful paint, ms": 300,
    "verdict readable, ms": 2000,
    "requests to the first screen": 20,
    "filter of all names, ms": 50,
    "curve of all points, again, ms": 5,
    "curve of all points, until drawn, ms": 65,
    "heatmap, packed, kB": 1000,
    "heatmap, unpacked and drawn, ms": 100,
    "memory before a run is opened, MB": 150,
    "report, kB": 5000,
    "report, first contentful paint, ms": 1000,
}
CHARTS_OF_TENSORBOARD = "line-chart canvas, line-chart svg"


def main(words: Sequence[str] | None = None) -> None:
    """Write two runs, serve and read them, and print the cost of each part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--tensors", type=int, default=20)
    parser.add_argument("--wide", type=int, default=10_000)
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--map-rows", type=int, default=2000)
    parser.add_argument("--map-columns", type=int, default=1200)
    parser.add_argument("--times", type=int, default=5)
    arguments = parser.parse_args(words)
    print(f"{platform.platform()}, Python {platform.python_version()}, {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder) / "runs"
        reading.write(runs / LONG, arguments.steps, arguments.tensors)
        reading.write(runs / WIDE, 20, arguments.wide)
        write_points(runs / POINTS, arguments.points)
        reading.write(runs / MAP, arguments.map_columns, arguments.map_rows, like_norms=True)
        print(f"{LONG}: {arguments.steps:,} steps, {arguments.tensors} tensors")
        print(f"{WIDE}: 20 steps, {arguments.wide:,} tensors")
        print(f"{POINTS}: {arguments.points:,} losses")
        print(f"{MAP}: {arguments.map_columns:,} steps, {arguments.map_rows:,} tensors")
        print(f"load of the machine: {os.getloadavg()[0]:.1f}")
        with served(runs, Path(folder)) as (url, process):
            server(url, process, arguments.times)
            heatmap(url, arguments.map_rows, arguments.map_columns, arguments.times)
            browser(url, runs / LONG, arguments.times)
        for run in (LONG, POINTS):
            tensorboard(runs / run, Path(folder) / f"tensorboard-{run}")


def write_points(folder: Path, steps: int) -> None:
    """Write a run of losses only, in batches as fast training writes them."""
    from mothtrap.core.records import Scalar, StepRecord
    from mothtrap.core.steps import StepKey
    from mothtrap.statistics.summary import WIDTH

    log, none = reading.start(folder, pid=2**30), np.empty(0, np.uint32)
    rows = np.empty((0, WIDTH))
    for begin in range(0, steps, 10_000):
        log.append(
            [
                StepRecord(
                    key=StepKey(step=step, mode_step=step),
                    wall_s=1e9 + step,
                    tensor_T=none,
                    summary_TF=rows,
                    scalars=(Scalar("loss", "", 1.0 / (step + 1)),),
                )
                for step in range(begin, min(begin + 10_000, steps))
            ]
        )
    log.close()


@contextmanager
def served(runs: Path, folder: Path) -> Iterator[tuple[str, psutil.Process]]:
    """Serve runs; yield the first address and the process."""
    command = [sys.executable, "-m", "mothtrap", "ui", str(runs), "--port", "0"]
    environ = {**os.environ, "MOTHTRAP_CACHE": str(folder / "cache")}
    child = subprocess.Popen(
        command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert child.stdout is not None
        yield child.stdout.readline().strip(), psutil.Process(child.pid)
    finally:
        child.terminate()
        child.wait(30)
        child.stdout.close()


DRAW = """async ([parts, rows, columns]) => {
    const { HEATMAP } = await import("./views/deep.js");
    const read = (part) => fetch(part).then((answer) => answer.arrayBuffer());
    const buffers = await Promise.all(parts.map(read));
    const canvas = new OffscreenCanvas(columns, rows);
    const context = canvas.getContext("2d");
    const begin = performance.now();
    const image = context.createImageData(canvas.width, canvas.height);
    const whole = buffers.map(HEATMAP.unpackedCells);
    const codes = new Uint8Array(image.width * image.height);
    whole.forEach((part) => codes.set(part.codes, part.first * part.columns));
    const cells = { codes, columns: whole[0].columns, first: 0 };
    HEATMAP.paint(image, cells, HEATMAP.palette(false), 1, 0);
    context.putImageData(image, 0, 0);
    return performance.now() - begin;
}"""


def heatmap(url: str, rows: int, columns: int, times: int) -> None:
    """Print size and times of a heatmap, in the answers of 512 rows that the page asks for."""
    parts = urlsplit(url)
    token = parts.query.partition("=")[2]
    path = f"api/matrix?run={MAP}&px={columns}&rows=512"
    paths = [f"./{path}&first={first}" for first in range(0, rows, 512)]

    def packed_bytes() -> int:
        client = http.client.HTTPConnection(parts.netloc, timeout=600)
        size = 0
        for each in paths:
            headers = {"Authorization": f"Bearer {token}", "Accept-Encoding": "gzip"}
            client.request("GET", each[1:], headers=headers)
            size += len(client.getresponse().read())
        client.close()
        return size

    say("heatmap, first, ms", timed_ms(packed_bytes))
    say("heatmap, again, ms", timed_ms(packed_bytes))
    say("heatmap, packed, kB", packed_bytes() / 1000)
    with chromium() as opened:
        if opened is None:
            return
        page = opened.new_page()
        page.goto(url)
        drawn = [page.evaluate(DRAW, [paths, rows, columns]) for _ in range(times)]
        say("heatmap, unpacked and drawn, ms", statistics.median(drawn))


def server(url: str, process: psutil.Process, times: int) -> None:
    """Print times of answers and the server's memory."""
    parts = urlsplit(url)
    token = parts.query.partition("=")[2]

    def get(path: str) -> bytes:
        client = http.client.HTTPConnection(parts.netloc, timeout=600)
        client.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        answer = client.getresponse()
        body = answer.read()
        client.close()
        if answer.status != 200:
            raise RuntimeError(f"{path}: {answer.status} {body[:200]!r}")
        return body

    say("memory before a run is opened, MB", memory_mb(process))
    norm = quote("train/gradient.l2/layer7.weight")
    for name, path in (
        ("facts of the run", f"/api/run?run={LONG}"),
        ("findings", f"/api/findings?run={LONG}"),
        ("curve", f"/api/series?run={LONG}&name=train/loss&px=1200"),
        ("curve of all points", f"/api/series?run={POINTS}&name=train/loss&px=1200"),
        ("curve of a tensor", f"/api/series?run={LONG}&name={norm}&px=1200"),
        ("zoom of a tensor", f"/api/series?run={LONG}&name={norm}&from=10&to=300&px=1200"),
        (f"names of {WIDE}", f"/api/names?run={WIDE}"),
        ("curve of one of many tensors", f"/api/series?run={WIDE}&name={norm}"),
    ):
        first_ms = timed_ms(lambda path=path: get(path))
        again_ms = statistics.median(timed_ms(lambda path=path: get(path)) for _ in range(times))
        say(f"{name}, first, ms", first_ms)
        say(f"{name}, again, ms", again_ms)
    say("memory afterwards, MB", memory_mb(process))


def browser(url: str, run: Path, times: int) -> None:
    """Print times of the page and of a report in a headless Chromium."""
    with chromium() as opened:
        if opened is None:
            print("no browser: Chromium or playwright is missing")
            return
        report = run.parent.parent / "report.html"
        command = [sys.executable, "-m", "mothtrap", "report", str(run), "-o", str(report)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        taken: dict[str, list[float]] = {}
        for _ in range(times + 1):  # the first warms up
            context = opened.new_context()
            page = context.new_page()
            numbers = shown(page, f"{url}#/overview?run={LONG}", "h1")
            numbers |= {"verdict readable, ms": numbers.pop("there, ms")}
            numbers |= {"filter of all names, ms": _filtered(page, url)}
            numbers |= {"curve of all points, until drawn, ms": _drawn(page)}
            told = shown(context.new_page(), report.as_uri(), "h1")
            numbers["report, first contentful paint, ms"] = told["first contentful paint, ms"]
            for name, value in numbers.items():
                taken.setdefault(name, []).append(value)
            context.close()
        for name, values in taken.items():
            say(name, statistics.median(values[1:]))
        say("report, kB", report.stat().st_size / 1e3)


@contextmanager
def chromium() -> Iterator[Any]:
    """Start the system's Chromium; None if it or playwright is missing."""
    found = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        found = None
    if found is None:
        yield None
        return
    with sync_playwright() as started:
        opened = started.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield opened
        opened.close()


def shown(page: Any, url: str, what: str) -> dict[str, float]:
    """Open an address; return when it was painted, when `what` appeared, and the cost."""
    requests: list[str] = []
    got_bytes: list[float] = []
    page.on("request", lambda request: requests.append(request.url))
    network = page.context.new_cdp_session(page)
    network.send("Network.enable")
    network.on("Network.loadingFinished", lambda end: got_bytes.append(end["encodedDataLength"]))
    began = time.perf_counter()
    page.goto(url)
    page.locator(what).first.wait_for(timeout=1e3 * TENSORBOARD_S)
    there_ms = 1e3 * (time.perf_counter() - began)
    page.wait_for_timeout(1000)  # the rest of the first screen
    paint = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
    return {
        "first contentful paint, ms": page.evaluate(paint),
        "there, ms": there_ms,
        "requests to the first screen": len(requests),
        "kB of the first screen": sum(got_bytes) / 1e3,
    }


def _drawn(page: Any) -> float:
    """Time from the wish for a curve of all points until its chart is there, within the page."""
    return page.evaluate(
        """async (place) => {
            const frame = () => new Promise((done) => requestAnimationFrame(done));
            location.hash = "/runs";
            while (document.querySelector("[data-buckets]")) await frame();
            const began = performance.now();
            location.hash = place;
            const there = () => document.querySelector(
                '[role=img][aria-label*="train/loss"][data-buckets]');
            while (!there() || there().dataset.buckets === "0") await frame();
            return performance.now() - began;
        }""",
        f"/curves?run={POINTS}&name=train/loss",
    )


def _filtered(page: Any, url: str) -> float:
    """Time to filter all names of the wide run, within the page."""
    page.goto(f"{url.partition('?')[0]}#/curves?run={WIDE}")
    page.get_by_role("listbox", name="Tensors").wait_for()
    took_ms = page.evaluate(
        """async () => {
            const box = document.querySelector("[data-search]");
            const began = performance.now();
            box.value = "layer*9";
            box.dispatchEvent(new Event("input", { bubbles: true }));
            await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
            return performance.now() - began;
        }"""
    )
    return float(took_ms)


def tensorboard(run: Path, logs: Path) -> None:
    """Print how long TensorBoard takes to show the scalars of the same run, and its memory."""
    program = Path(sys.executable).parent / "tensorboard"
    if not program.exists():
        print("no TensorBoard is installed beside this Python")
        return
    from mothtrap.exports import Choice, export_run
    from mothtrap.reader.run import open_run

    opened = open_run(run)
    chosen = Choice(tensors="gradient:layer0.weight") if opened.tensors() else Choice()
    export_run(opened, "tensorboard", str(logs), chosen)
    command = [str(program), "--logdir", str(logs), "--port", "0", "--bind_all"]
    began = time.perf_counter()
    with logs.with_suffix(".said").open("w+") as said:
        child = subprocess.Popen(command, stdout=said, stderr=said)
        try:
            took_s = _until_shown(said.name, opened.steps, began)
            name = f"TensorBoard, {run.name}"
            say(f"{name}: until the last step is answered, ms", 1e3 * took_s)
            say(f"{name}: memory, MB", memory_mb(psutil.Process(child.pid)))
            with chromium() as started:
                if started is not None:
                    page = started.new_page()
                    url = f"http://localhost:{_port(said.name)}/?darkMode=false#timeseries"
                    for what, value in shown(page, url, CHARTS_OF_TENSORBOARD).items():
                        say(f"{name}: {what}", value)
        finally:
            child.terminate()
            child.wait(30)


def _port(said: str) -> str:
    """The port that TensorBoard printed; empty before that."""
    words = Path(said).read_text().split()
    return next((w.rpartition(":")[2].strip("/") for w in words if w.startswith("http://")), "")


def _until_shown(said: str, steps: int, began: float) -> float:
    """Ask until the last step is among the points of a scalar."""
    while time.perf_counter() - began < TENSORBOARD_S:
        if port := _port(said):
            try:
                tags = _json(port, "/data/plugin/scalars/tags")
                for name, held in tags.items():
                    tag = next((each for each in held if "loss" in each), None)
                    if tag is None:
                        continue
                    path = f"/data/plugin/scalars/scalars?run={quote(name)}&tag={quote(tag, '')}"
                    points = _json(port, path)
                    if points and points[-1][1] >= steps - 1:
                        return time.perf_counter() - began
            except (OSError, ValueError, http.client.HTTPException):
                pass
        time.sleep(0.05)
    return float("nan")


def _json(port: str, path: str):  # type: ignore[no-untyped-def]
    client = http.client.HTTPConnection("127.0.0.1", int(port), timeout=30)
    try:
        client.request("GET", path)
        return json.loads(client.getresponse().read())
    finally:
        client.close()


def timed_ms(work: Callable[[], object]) -> float:
    """Return the duration of a piece of work."""
    began = time.perf_counter()
    work()
    return 1e3 * (time.perf_counter() - began)


def memory_mb(process: psutil.Process) -> float:
    """Resident memory of a process and its children."""
    every = [process, *process.children(recursive=True)]
    return sum(each.memory_info().rss for each in every) / 1e6


def say(name: str, value: float) -> None:
    """Print a figure, with its goal if it has one."""
    goal = f"   (wanted: {GOALS[name]} at most)" if name in GOALS else ""
    print(f"  {name:52} {value:10.1f}{goal}")


if __name__ == "__main__":
    main()
