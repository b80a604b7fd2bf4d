"""Tools for an agent: each answers one question about the runs of one folder.

A tool never raises: an error is an answer with a next step. Tools read only, unless the user
allows replays or control of running jobs when the server starts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mothtrap.core.collections import Collection, complaint
from mothtrap.core.control_requests import CaptureRequest, SnapshotRequest, StopRequest
from mothtrap.core.errors import ConfigError, MothtrapError, RunNotFoundError, nearest
from mothtrap.core.values import to_struct
from mothtrap.monitor.catalogue import documented, explains
from mothtrap.reader.run import Run, open_run
from mothtrap.report.answers import questions
from mothtrap.report.answers.answer import Answer
from mothtrap.report.answers.evidence import evidence
from mothtrap.report.ending import ending_word
from mothtrap.report.replays import as_json
from mothtrap.report.summary import RunSummary, summarize
from mothtrap.session import control_client
from mothtrap.session.fixing import Undecided, repairs
from mothtrap.session.replay import ReplayOptions, replay
from mothtrap.session.replay_start import Start
from mothtrap.store.control_inbox import new_id
from mothtrap.store.layout import attempts, list_runs
from mothtrap.store.plain_files import link_out_of

MAX_RUNS = 10
"""Maximum number of listed runs; chosen by hand: each is opened for its verdict."""
MAX_REASON = 200


class Tools:
    """Answers questions about the runs of one folder.

    Args:
        runs_dir: folder of the runs; no run outside it is opened.
        replays: allow restarting the script of a run.
        control: allow changing what a running job captures, and stopping it.
    """

    def __init__(self, runs_dir: Path, *, replays: bool = False, control: bool = False) -> None:
        self._folder = runs_dir.resolve()
        self._replays, self._control = replays, control
        self._lock = threading.Lock()

    def ask(self, question: str, **arguments: Any) -> Answer:
        """Return the answer to a question; an error includes a suggested next step."""
        with self._lock:
            try:
                return self._questions()[question](**arguments)
            except (MothtrapError, OSError, ValueError) as err:
                return _error(question, str(err), _next_step(err))
            except Exception as err:
                next_step = "run `mothtrap -v show RUN` in a terminal"
                return _error(question, _own_failure(err), next_step)

    def _questions(self) -> Mapping[str, Callable[..., Answer]]:
        return {
            "runs": self._runs,
            "verdict": lambda run="": questions.verdict(self._opened(run)[1]),
            "finding": lambda which, run="": questions.finding(
                *self._opened(run), which, documented()
            ),
            "evidence": lambda which, run="": evidence(*self._opened(run), which, documented()),
            "source": lambda which="", run="", place="": questions.source(
                *self._opened(run), which, place
            ),
            "fix": lambda run="": fixes(*self._opened(run)),
            "record": lambda run="": questions.record(self._opened(run)[0]),
            "coverage": lambda run="": questions.coverage(self._opened(run)[1]),
            "compare": self._compared,
            "replay": self._replayed,
            "capture": self._captured,
            "snapshot": self._snapshot,
            "stop": self._stopped,
        }

    def _runs(self) -> Answer:
        found = list_runs(self._folder)
        told = [self._row(path) for path in found[:MAX_RUNS]]
        content: dict[str, Any] = {"folder": str(self._folder), "runs": told, "count": len(found)}
        if not found:
            content["next_step"] = "start one in a terminal: mothtrap run train.py"
        return Answer(question="runs", content=content, ask={"runs": "mothtrap ls lists all"})

    def _row(self, path: Path) -> dict[str, Any]:
        try:
            run, summary = self._opened(path.name)
        except (MothtrapError, OSError, ValueError) as err:
            return {"run": path.name, "problem": str(err)}
        except Exception as err:  # other runs can still be listed
            return {"run": path.name, "problem": _own_failure(err)}
        verdict = summary.verdict
        return {"run": path.name, "state": ending_word(run), "steps": run.steps, "verdict": verdict}

    def _compared(self, first: str, second: str) -> Answer:
        one, other = self._opened(first), self._opened(second)
        verdicts = {"first": one[1].verdict, "second": other[1].verdict}
        return questions.comparison(one[0], other[0], verdicts)

    def _replayed(self, run: str = "", step: int | None = None) -> Answer:
        _require(self._replays, "replay starts the script of the run", "--allow-replay")
        done = replay(self._path(run), ReplayOptions(step=step), starting=_own_only)
        content = as_json(done.snapshot, done.results, done.warnings)
        return Answer(question="replay", content=content)

    def _captured(
        self, tensors: list[str], run: str = "", every: int = 1, for_steps: int = 100
    ) -> Answer:
        self._require_control()
        path = self._path(run)
        name = f"agent: {' '.join(tensors)}"[:MAX_REASON]
        collection = to_struct({"tensors": tensors, "every": every}, Collection, "tensors")
        if found := complaint(name, collection):
            raise ConfigError(found)
        request = CaptureRequest(
            id=new_id(),
            attempt=attempts(path)[-1],
            add={name: collection},
            for_steps=for_steps,
            from_step=control_client.common_step(control_client.check_running(path)),
        )
        answers = control_client.ask(path, request, None)
        content = {"captured": tensors, "from_step": max(one.step for one in answers)}
        unknown = control_client.unmatched(path, request)
        return Answer(question="capture", content={**content, "warnings": unknown})

    def _snapshot(self, run: str = "") -> Answer:
        self._require_control()
        path = self._path(run)
        request = SnapshotRequest(id=new_id(), attempt=attempts(path)[-1])
        kept = control_client.ask_for_snapshot(path, request, None)
        return Answer(question="snapshot", content={"snapshots": kept})

    def _stopped(self, run: str = "", reason: str = "requested by an agent") -> Answer:
        self._require_control()
        path = self._path(run)
        request = StopRequest(id=new_id(), attempt=attempts(path)[-1], reason=reason[:MAX_REASON])
        answers = control_client.ask_to_stop(path, request, None)
        return Answer(question="stop", content={"stopped_before_step": [a.step for a in answers]})

    def _require_control(self) -> None:
        _require(self._control, "this changes a running job", "--allow-control")

    def _opened(self, run: str) -> tuple[Run, RunSummary]:
        opened = open_run(self._path(run))
        return opened, summarize(opened, explains(), called=opened.path.name)

    def _path(self, run: str) -> Path:
        """Return the folder of a run by its name; the latest run for an empty name.

        Raises:
            RunNotFoundError: there is no such run in the folder; a path does not count as a name.
            PermissionError: the run is a link, or contains one, that leads to another folder.
        """
        known = list_runs(self._folder)
        names = [path.name for path in known]
        if not known:
            raise RunNotFoundError(f"{self._folder} contains no runs")
        if run and run not in names:
            raise RunNotFoundError(
                f"no run is called {run[:80]!r}{nearest(run[:80], names)}; pass a name that the "
                "tool `runs` lists, not a path"
            )
        return _without_links(self._folder / run if run else known[0])


def fixes(run: Run, summary: RunSummary) -> Answer:
    """Return a patch for each finding with a certain fix; otherwise the decision for the user."""
    patches: list[dict[str, Any]] = []
    undecided: list[dict[str, Any]] = []
    for found in repairs(run, summary):
        if isinstance(found, Undecided):
            undecided.append({"code": found.finding.code, "reason": found.reason})
        else:
            patches.append(
                {"code": found.finding.code, "file": found.file, "diff": found.diff.splitlines()}
            )
    content = {"run": summary.run.id, "patches": patches, "undecided": undecided}
    return Answer(question="fix", content=content, ask={"patches": "mothtrap fix RUN"})


def _without_links(run: Path) -> Path:
    """Return a run if its files are its own.

    Raises:
        PermissionError: the run is a link, or contains one, that leads to another folder.
    """
    if run.is_symlink():
        raise PermissionError(f"{run.name[:80]!r} is a link to another folder; it is not opened")
    if link := link_out_of(run):
        raise PermissionError(
            f"{run.name[:80]!r} contains the link {link[:80]!r}, which leads out of the run; "
            "the run is not opened"
        )
    return run


def _own_failure(err: Exception) -> str:
    return f"mothtrap itself failed: {type(err).__name__}"


def _require(allowed: bool, what: str, option: str) -> None:
    if not allowed:
        raise PermissionError(
            f"not allowed: {what}; the user can allow it with `mothtrap mcp {option}`"
        )


def _own_only(start: Start) -> None:
    """Reject the command of a run that another user recorded; an agent cannot confirm it."""
    if start.foreign:
        raise PermissionError(
            f"this run was recorded on {start.foreign}; the user must replay it in a terminal"
        )


def _error(question: str, text: str, next_step: str) -> Answer:
    return Answer(question=question, content={"error": text, "next_step": next_step})


def _next_step(err: Exception) -> str:
    if isinstance(err, RunNotFoundError):
        return "call `runs`; if there are none, run `mothtrap run train.py` in a terminal"
    if isinstance(err, PermissionError):
        return "ask the user"
    return "call `verdict`, which names the findings and the damage of the run"
