"""Lag from a bad step to its alert: many live runs, two monitors, one of them killed.

Processes write runs step by step. In each run the loss is high from one step on, which a rule
reports. Two `mothtrap monitor` processes follow the runs; one is killed (SIGKILL) when half of the
alerts have arrived. No alert may be lost, and an alert that is sent again must have the same id.
With --s3 the runs go through a server that speaks the S3 protocol (moto), which answers after 30
ms, and is stopped for some seconds in between.

Run: python bench/monitoring.py [--runs N] [--s3]
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.session.monitoring.live_run import RULES, LiveRun

STEPS, STEP_S = 60, 0.5
SEND_EVERY_S = 2.0
LATENCY_S = 0.03
STOPPED_S = 4.0
WRITERS = 3
GIVE_UP_S = 240.0
CONFIG = """
rule_files = ["mine.py"]
ignore = ["LOS"]
[[actions]]
do = ["webhook"]
webhook = "{url}"
when = {{ rules = ["ZZZ901"], severity = "error" }}
cooldown_s = 0
"""


class Alerts:
    """A server that records the alerts that it receives: time, id, and run."""

    def __init__(self) -> None:
        self.received: list[tuple[float, str, str]] = []
        alerts = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                alerts.received.append((time.time(), body["id"], body["data"]["run"]))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Print nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/"

    def runs(self) -> set[str]:
        """Return the runs with a received alert."""
        return {run for _, _, run in self.received}


def write(folder: Path, numbers: Sequence[int], url: str) -> None:
    """Write some runs step by step, and the times of their bad steps to `NAME.bad`.

    Args:
        folder: of the runs.
        numbers: of the runs.
        url: location in the object store to which they are sent; "": they stay local.
    """
    runs = {number: LiveRun(folder / f"r{number:03}") for number in numbers}
    bad = {number: random.Random(number).randrange(5, STEPS - 10) for number in numbers}
    sent_s = 0.0
    for step in range(STEPS):
        began_s = time.time()
        for number, run in runs.items():
            run.train(2000.0 if step >= bad[number] else 1.0)
            if step == bad[number]:
                (folder / f"{run.path.name}.bad").write_text(str(time.time()))
        if url and time.time() - sent_s >= SEND_EVERY_S:
            sent_s = time.time()
            _send(runs.values(), url)
        time.sleep(max(0.0, began_s + STEP_S - time.time()))
    for run in runs.values():
        run.end()
    if url:
        _send(runs.values(), url, until_done=True)


def _send(runs: Any, url: str, *, until_done: bool = False) -> None:
    for run in runs:
        while True:
            try:
                run.send(f"{url}/{run.path.name}")
                break
            except OSError:  # the server is stopped
                if not until_done:
                    break
                time.sleep(0.5)


def main(words: Sequence[str] | None = None) -> dict[str, float]:
    """Measure, print, and return the figures by name."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--s3", action="store_true")
    arguments = parser.parse_args(words)
    print(f"{platform.platform()}, Python {platform.python_version()}, {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if arguments.s3:
            os.environ["MOTHTRAP_CACHE"] = str(folder / "cache")
            found = _with_server(folder, arguments.runs)
        else:
            found = measure(folder, arguments.runs, "")
    for what, value in found.items():
        print(f"{what:<28} {value:.2f}")
    return found


def _with_server(folder: Path, count: int) -> dict[str, float]:
    from tests.s3_server import S3Server, credentials

    server = S3Server()
    answer = server._app

    def late(environ: Any, start_response: Any) -> Any:
        time.sleep(LATENCY_S)
        return answer(environ, start_response)

    server._app = late  # type: ignore[assignment]
    os.environ |= credentials(server)
    url = f"s3://{server.make_bucket()}/team"

    def interrupt() -> None:
        time.sleep(STEPS * STEP_S / 2)
        server.stop()
        server._server.server_close()
        time.sleep(STOPPED_S)
        server.start()

    threading.Thread(target=interrupt, daemon=True).start()
    try:
        return measure(folder, count, url)
    finally:
        server.stop()


def measure(folder: Path, count: int, url: str) -> dict[str, float]:
    """Write the runs, follow them, and return lags in seconds and counts."""
    alerts = Alerts()
    (folder / "mine.py").write_text(RULES)
    (folder / "mothtrap.toml").write_text(CONFIG.format(url=alerts.url))
    runs = folder / "runs"
    runs.mkdir()
    place = url or "runs"
    command = [sys.executable, "-m", "mothtrap", "monitor", place, "--new"]
    monitors = [subprocess.Popen(command, cwd=folder, stderr=subprocess.DEVNULL) for _ in range(2)]
    context = multiprocessing.get_context("spawn")  # a fork would keep the port of the server
    writers = [
        context.Process(target=write, args=(runs, range(count)[first::WRITERS], url))
        for first in range(WRITERS)
    ]
    for writer in writers:
        writer.start()
    try:
        began_s = time.time()
        while len(alerts.runs()) < count and time.time() - began_s < GIVE_UP_S:
            if len(alerts.runs()) >= count / 2 and monitors[0].poll() is None:
                monitors[0].kill()
            time.sleep(0.2)
        for writer in writers:
            writer.join()
        time.sleep(5)  # what is sent again comes now
    finally:
        for process in monitors:
            process.kill()
            process.wait()
    return _figures(runs, count, alerts)


def _figures(runs: Path, count: int, alerts: Alerts) -> dict[str, float]:
    bad_s = {path.stem: float(path.read_text()) for path in runs.glob("*.bad")}
    first: dict[str, float] = {}
    ids: dict[str, set[str]] = {}
    for at_s, name, run in alerts.received:
        first.setdefault(run, at_s)
        ids.setdefault(run, set()).add(name)
    lags = sorted(first[run] - bad_s[run] for run in first)
    return {
        "runs": count,
        "alerts lost": count - len(first),
        "sent again, same id": len(alerts.received) - sum(map(len, ids.values())),
        "sent again, other id": sum(len(names) - 1 for names in ids.values()),
        "median lag, s": statistics.median(lags),
        "99th percentile, s": lags[min(len(lags) - 1, int(0.99 * len(lags)))],
        "largest lag, s": lags[-1],
    }


if __name__ == "__main__":
    found = main()
    sys.exit(bool(found["alerts lost"] or found["sent again, other id"]))
