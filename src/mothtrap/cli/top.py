"""Show a run live in the terminal."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mothtrap.cli._keys import Keys
from mothtrap.cli._options import runs_dir_option

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from mothtrap.reader.run import Run
    from mothtrap.report.summary import RunSummary
    from mothtrap.store.machine_log import MachineReader

EVERY_S = 0.5
"""Seconds between two reads of the run; keys act immediately."""


@click.command(name="top")
@click.argument("run", required=False)
@click.option("--once", is_flag=True, help="Print one screen and exit.")
@runs_dir_option
def command(run: str | None, once: bool, runs_dir: str | None) -> None:
    """Show a run live in the terminal; without RUN, the latest. Works over ssh.

    Keys: q quits, n and p go to the next and previous finding, f goes to the first bad step, s
    pressed twice stops the job. If stdout is not a terminal, one screen is printed.
    """
    from rich.console import Console

    from mothtrap.core.config import load_config
    from mothtrap.monitor.catalogue import explains, rule_classes
    from mothtrap.reader.run import open_run

    config, _ = load_config(start=Path.cwd(), environ=os.environ, overrides={"runs_dir": runs_dir})
    opened = open_run(run, config.runs_dir)
    view = _View(opened, explains(rule_classes(config.rule_files)))
    console = Console()
    if once or not (console.is_terminal and sys.stdin.isatty()):
        console.print(view.draw(console))
        return
    _live(view, console)


class _View:
    """Contents of the screen, and their changes by keys."""

    def __init__(self, run: Run, explains: dict[str, frozenset[str]]) -> None:
        self.run, self._explains = run, explains
        self._machine: MachineReader | None = None
        self._attempt = -1
        self._chosen, self._note, self._asked_s = 0, "", float("-inf")
        self.summary: RunSummary | None = None

    def draw(self, console: Console) -> RenderableType:
        """Read new data, and return the screen."""
        from mothtrap.report.machine import machine_rows
        from mothtrap.report.screen import screen
        from mothtrap.report.summary import summarize
        from mothtrap.store.layout import attempt_folder, attempts
        from mothtrap.store.machine_log import MachineReader

        self.run.refresh()
        self.summary = summarize(self.run, self._explains)
        last = (attempts(self.run.path) or [1])[-1]
        if self._machine is None or last != self._attempt:
            self._machine, self._attempt = MachineReader(attempt_folder(self.run.path, last)), last
        self._machine.poll()
        self._chosen = max(0, min(self._chosen, len(self.summary.findings) - 1))
        return screen(
            self.run,
            self.summary,
            machine_rows(self._machine.series),
            chosen=self._chosen,
            width=console.width,
            note=self._note,
        )

    def press(self, key: str) -> bool:
        """Handle a key; return whether to continue."""
        findings = self.summary.in_story_order() if self.summary is not None else []
        self._note = ""
        if key in ("q", "\x03", "\x1b"):
            return False
        if key == "n":
            self._chosen += 1
        elif key == "p":
            self._chosen -= 1
        elif key == "f" and findings:
            self._chosen = min(range(len(findings)), key=lambda i: findings[i].step)
        elif key == "s":
            self._note = self._stop()
        return True

    def _stop(self) -> str:
        from mothtrap.core.control_requests import StopRequest
        from mothtrap.store.control_inbox import new_id, send
        from mothtrap.store.layout import attempts

        if self.run.state != "running":
            return "the job has ended"
        if time.monotonic() - self._asked_s > 5:
            self._asked_s = time.monotonic()
            return "press s again to stop the job"
        number = attempts(self.run.path)[-1]
        request = StopRequest(id=new_id(), attempt=number, reason="requested in mothtrap top")
        try:
            send(self.run.path, request)
        except OSError as err:
            return f"cannot ask the job to stop: {err}"
        return "asked the job to stop"


def _live(view: _View, console: Console, wait: Callable[[float], str] | None = None) -> None:
    """Draw until the user quits or the terminal closes."""
    from rich.live import Live

    with (
        Keys(sys.stdin.fileno()) as keys,
        Live(console=console, screen=True, auto_refresh=False) as live,
    ):
        next_key, going = wait or keys.wait, True
        while going:
            live.update(view.draw(console), refresh=True)
            key = next_key(EVERY_S)
            going = view.press(key) if key else True
