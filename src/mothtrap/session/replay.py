"""Repeat a recorded step: restart its script as a child process that replays the snapshot."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from mothtrap.core import jsonable
from mothtrap.core.diagnosis import diagnose
from mothtrap.core.errors import MothtrapError, ReplayError, StepUnavailableError
from mothtrap.core.findings import Finding
from mothtrap.core.replays import (
    PLAN_FILE,
    PLAN_VARIABLE,
    RESULT_FILE,
    ReplayPlan,
    ReplayResult,
)
from mothtrap.core.snapshots import Snapshot
from mothtrap.monitor.catalogue import explains
from mothtrap.reader.run import open_run
from mothtrap.report.replays import all_match
from mothtrap.report.unkept import why_refused, why_unkept
from mothtrap.session.blamed import with_samples
from mothtrap.session.fault_localization import narrowed
from mothtrap.session.repeatability import repeatability
from mothtrap.session.replay_start import Start, start_of
from mothtrap.session.replayed_workers import compared_alone
from mothtrap.session.sameness import changed_sources, differences_here
from mothtrap.session.site_folder import SITE
from mothtrap.session.triggers import triggers
from mothtrap.snapshot.choosing import Rank, rank
from mothtrap.snapshot.code_locations import CodeLocations, Moved, moved_since
from mothtrap.snapshot.format import Stored, load, stored
from mothtrap.snapshot.retention import is_onset
from mothtrap.store.naming import name_here

SHOWN_LINES = 20
"""Number of lines of the script's output that are shown if the replay failed."""
BACKGROUND_PRIORITY = 10
"""Niceness of a replay during training: a tenth of a processor that both compete for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """Options of a replay.

    Attributes:
        step: None = the most important step.
        build: `module:function` that creates the model and the loss, instead of the script.
        eager: run without compilation.
        device: device of state and batch; None = as recorded.
        dtype: type of floating-point values; None = as recorded.
        debug: use the terminal for a debugger.
        narrow: search for the operation and the rows if a value is not finite.
        through: the script may run other steps before it reaches the location.
        timeout_s: time limit for the script; 0 = none.
        command: command that replaces the recorded one.
        cwd: folder in which the script is started; None = the command of the run.
        copied: `cwd` is an unchanged copy of the folder of the run.
        background: the script runs with a low priority.
        anyway: replay even if the run is still active.
        test_file: where to write a test of the failure.
        repro_file: where to write a script that fails without the training code.
    """

    step: int | None = None
    build: str | None = None
    eager: bool = False
    device: str | None = None
    dtype: str | None = None
    debug: bool = False
    narrow: bool = True
    through: bool = False
    timeout_s: float = 600.0
    command: tuple[str, ...] = ()
    cwd: str | None = None
    copied: bool = False
    background: bool = False
    anyway: bool = False
    test_file: str | None = None
    repro_file: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """Result of a replay.

    Attributes:
        snapshot: snapshot of the first worker.
        results: results of every worker, by rank.
        warnings: possible reasons for differences from the recorded step.
        output: the last lines that the script printed.
    """

    snapshot: Snapshot
    results: tuple[ReplayResult, ...]
    warnings: tuple[str, ...] = ()
    output: str = ""
    options: ReplayOptions = field(default_factory=ReplayOptions)


def replay(
    run: Path, options: ReplayOptions, *, starting: Callable[[Start], None] = lambda _: None
) -> Replayed:
    """Replay a recorded step of a run.

    Args:
        run: folder of the run.
        options: options of the replay.
        starting: receives the command to execute, and may refuse it by raising an exception.

    Raises:
        StepUnavailableError: the run has no snapshot (of that step).
        DamagedSnapshotError: the files of the snapshot have changed since they were written.
        ReplayError: the script could not be started or never reached the step, or the run is still
            active in the folder in which it would be started.
    """
    chosen = choose(run, options.step)
    loaded = {one.worker: load(one.folder) for one in chosen}  # reject damaged files immediately
    snapshot = loaded[min(loaded)].snapshot
    if options.repro_file and snapshot.framework != "torch":
        raise ReplayError(
            f"--repro supports only PyTorch, and this step is from {snapshot.framework}; omit "
            "--repro"
        )
    options = _allowed(run, snapshot, options, starting)
    warnings = _warnings(run, snapshot, options)
    moved = _moved(run, [one.snapshot for one in loaded.values()], options)
    with tempfile.TemporaryDirectory(prefix="mothtrap-replay-") as scratch:
        plan = ReplayPlan(
            step=snapshot.step,
            framework=snapshot.framework,
            workers={one.worker: str(one.folder.absolute()) for one in chosen},
            scratch=scratch,
            device=options.device,
            dtype=options.dtype,
            narrow=options.narrow and not options.debug,
            debug=options.debug,
            through=options.through,
            build=options.build,
            test_file=_absolute(options.test_file),
            repro_file=_absolute(options.repro_file),
            moved=moved,
            edited=bool(changed_sources(run, snapshot, _folder(options, snapshot))),
        )
        if options.debug and not snapshot.reason.startswith("exception"):
            place = _place_to_stop(plan, snapshot, options)
            plan = msgspec.structs.replace(plan, stop_at=place)
        results, output = _play(plan, snapshot, options, warnings)
        results = compared_alone(plan, results)
        results = narrowed(plan, results, lambda other: _repeat(other, snapshot, options))
        results = with_samples(run, snapshot, results)
        if _may_be_transient(snapshot, results, options, warnings):
            again = msgspec.structs.replace(plan, narrow=False, test_file=None, repro_file=None)
            said = repeatability(results, _repeat(again, snapshot, options))
            warnings = tuple(filter(None, (said,)))
    return Replayed(
        snapshot=snapshot, results=results, warnings=warnings, output=output, options=options
    )


def _may_be_transient(
    snapshot: Snapshot,
    results: Sequence[ReplayResult],
    options: ReplayOptions,
    warnings: Sequence[str],
) -> bool:
    """Return whether a bad step gives different bits here without a known difference."""
    converted = options.device or options.dtype or options.eager or options.build
    elsewhere = _folder(options, snapshot) and not options.copied
    alike = not (converted or warnings or options.debug or elsewhere)
    return alike and is_onset(snapshot.reason) and all_match(results) is False


def _absolute(file: str | None) -> str | None:
    return str(Path(file).absolute()) if file else None


def _allowed(
    run: Path, snapshot: Snapshot, options: ReplayOptions, starting: Callable[[Start], None]
) -> ReplayOptions:
    """Return the request with the command to execute."""
    start = start_of(run, snapshot, options.command, options.cwd, build=options.build is not None)
    if start.running and not options.anyway:
        raise ReplayError(
            f"{run.name} is still running: starting its script again in {start.folder} may "
            "overwrite files of the job. Wait until the job ends, pass --cwd with a copy of the "
            "folder, or pass --anyway"
        )
    starting(start)
    return dataclasses.replace(options, command=start.command, cwd=start.folder)


def choose(run: Path, step: int | None) -> list[Stored]:
    """Return the snapshots of a step, one per worker; None means the most important step.

    This is the first step that was not finite or ended in an exception, otherwise the first step
    with a finding (preferably of the root cause), otherwise the last step; see `snapshot.choosing`.

    Raises:
        StepUnavailableError: there is no snapshot.
    """
    every = stored(run)
    if not every:
        raise StepUnavailableError(f"{run.name} has no snapshot of any step; {_why_none(run)}")
    if step is None:
        usable = [one for one in every if one.snapshot is not None] or every
        root = _root(run)
        step = min(usable, key=lambda one: _rank(one, root)).step
    found = [one for one in every if one.step == step]
    if not found:
        known = ", ".join(str(number) for number in sorted({one.step for one in every}))
        raise StepUnavailableError(f"{run.name} has no snapshot of step {step}; there are: {known}")
    return found


def _why_none(run: Path) -> str:
    """Return the reason why a run has no snapshots, and when it will have some."""
    try:
        opened = open_run(run)
        why = why_unkept(opened, name_here(run)) or why_refused(opened)
    except (MothtrapError, OSError, ValueError):  # the run cannot be read
        why = None
    return why or (
        "one is taken when a loss or gradient is not finite, at an exception, at a finding of "
        "severity error, and on request: mothtrap snapshot RUN"
    )


def _rank(one: Stored, root: Finding | None) -> Rank:
    about = one.snapshot
    return rank(
        step=one.step,
        reason=about.reason if about is not None else "",
        exact=about is not None and about.state_step <= one.step,
        root_step=root.step if root is not None else None,
        root_code=root.code if root is not None else "",
    )


def _root(run: Path) -> Finding | None:
    """Return the root finding with which the diagnosis of a run begins."""
    try:
        found = diagnose(open_run(run).findings, explains())
    except (MothtrapError, OSError, ValueError):  # a run may be replayed even if it cannot be read
        return None
    fingerprint = found.stories[0].root if found.stories else None
    return next((one for one in found.findings if one.fingerprint == fingerprint), None)


def _repeat(plan: ReplayPlan, snapshot: Snapshot, options: ReplayOptions) -> Sequence[ReplayResult]:
    """Repeat the same step with another plan, in a separate folder."""
    with tempfile.TemporaryDirectory(prefix="mothtrap-replay-") as scratch:
        try:
            return _play(msgspec.structs.replace(plan, scratch=scratch), snapshot, options)[0]
        except ReplayError:
            return ()


def _warnings(run: Path, snapshot: Snapshot, options: ReplayOptions) -> tuple[str, ...]:
    """Return the conditions that may keep the replay here from being identical."""
    found = list(differences_here(run, snapshot, _folder(options, snapshot)))
    if snapshot.note:
        found.append(snapshot.note)
    converted = [name for name in (options.device, options.dtype) if name]
    if converted:
        found.append(
            f"converted to {' and '.join(converted)}, so the results need not match bit for bit"
        )
    return tuple(found)


def _folder(options: ReplayOptions, snapshot: Snapshot) -> str | None:
    """Return the folder with the executed sources, if it is not the folder of the run."""
    here = options.cwd
    return here if here and Path(here).resolve() != Path(snapshot.cwd).resolve() else None


def _moved(run: Path, snapshots: Sequence[Snapshot], options: ReplayOptions) -> Moved:
    """Return the current lines of the snapshots' code locations in the script."""
    found = Moved()
    for one in snapshots:
        folder = _folder(options, one)
        changed = changed_sources(run, one, folder)
        found |= moved_since(one, Path(folder or one.cwd), changed)
    return found


def _place_to_stop(plan: ReplayPlan, snapshot: Snapshot, options: ReplayOptions) -> str | None:
    """Return the line for the debugger: the first bad operation, else the start of the step."""
    first = msgspec.structs.replace(plan, narrow=options.narrow, debug=False)
    results, _ = _play(first, snapshot, dataclasses.replace(options, debug=False))
    _clear(Path(plan.scratch))
    sites = [event.site for event in snapshot.steps[-1].events]
    begins = CodeLocations(plan.moved).now(sites[0]) if sites else None
    return next((r.location for r in results if r.location), begins)


def _clear(scratch: Path) -> None:
    for path in scratch.glob("*.json"):
        path.unlink()


def _play(
    plan: ReplayPlan, snapshot: Snapshot, options: ReplayOptions, warnings: Sequence[str] = ()
) -> tuple[tuple[ReplayResult, ...], str]:
    """Start the script, wait for it, and read its results; errors include `warnings`."""
    scratch = Path(plan.scratch)
    (scratch / PLAN_FILE).write_bytes(msgspec.json.encode(plan))
    log = scratch / "output"
    with log.open("wb") as output:
        ended = _run(
            _command(snapshot, options),
            _environment(scratch, options),
            options,
            output,
        )
    text = log.read_text(encoding="utf-8", errors="replace")
    results = [_read(path) for path in sorted(scratch.glob(f"*-{RESULT_FILE}"))]
    results = [result for result in results if result.reached]
    if not results:
        unreached = [_read(p) for p in sorted(scratch.glob("*.json")) if p.name != PLAN_FILE]
        raise _never_reached(snapshot, options, unreached, ended, text, warnings)
    return tuple(sorted(results, key=lambda result: result.rank)), text


def _command(snapshot: Snapshot, options: ReplayOptions) -> list[str]:
    if options.build:
        return [sys.executable, "-m", "mothtrap.session.rebuilding", snapshot.framework]
    return list(options.command)


def _environment(scratch: Path, options: ReplayOptions) -> dict[str, str]:
    # A built model starts the replay itself, without the start-up hook.
    paths = ["" if options.build else str(SITE), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        PLAN_VARIABLE: str(scratch / PLAN_FILE),
        "MOTHTRAP_FRAMEWORKS": ",".join(triggers()),
    }
    environment.pop("MOTHTRAP_RUN_DIR", None)
    environment.pop("MOTHTRAP_DISABLE", None)
    if options.eager:
        environment |= {"TORCHDYNAMO_DISABLE": "1", "PYTORCH_JIT": "0"}
    if options.device == "cpu":
        environment["CUDA_VISIBLE_DEVICES"] = ""
    return environment


def _run(
    command: Sequence[str],
    environment: dict[str, str],
    options: ReplayOptions,
    output: object,
) -> str:
    """Run the script to its end; return how it ended, in words."""
    streams = {} if options.debug else {"stdin": subprocess.DEVNULL, "stdout": output}
    try:
        child = subprocess.Popen(
            command,
            cwd=options.cwd,
            env=environment,
            start_new_session=not options.debug,
            stderr=None if options.debug else subprocess.STDOUT,
            **streams,  # type: ignore[call-overload]
        )
    except OSError as err:
        raise ReplayError(
            f"cannot start {command[0]!r}: {err.strerror}; pass the command that starts the "
            "script here: `mothtrap replay RUN -- COMMAND`"
        ) from err
    if options.background and hasattr(os, "setpriority"):
        with suppress(ProcessLookupError, PermissionError):
            os.setpriority(os.PRIO_PROCESS, child.pid, BACKGROUND_PRIORITY)
    try:
        code = (
            child.wait(options.timeout_s or None) if not options.debug else _wait_debugging(child)
        )
    except subprocess.TimeoutExpired:
        return f"it was stopped after {options.timeout_s:g} s; raise the limit with --timeout"
    finally:
        _end(child, whole_group=not options.debug)
    return f"it ended with {f'exit code {code}' if code >= 0 else f'signal {-code}'}"


def _wait_debugging(child: subprocess.Popen[bytes]) -> int:
    """Wait while the user debugs; Ctrl-C is passed to the debugger."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        return child.wait()
    finally:
        signal.signal(signal.SIGINT, before)


def _end(child: subprocess.Popen[bytes], *, whole_group: bool) -> None:
    """End the script and all processes that it started, such as loader workers."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if whole_group:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, number)
        elif child.poll() is None:
            child.send_signal(number)
        with suppress(subprocess.TimeoutExpired):
            child.wait(2.0)
            return


def _read(path: Path) -> ReplayResult:
    return jsonable.decode(path.read_bytes(), ReplayResult)


def _never_reached(
    snapshot: Snapshot,
    options: ReplayOptions,
    unreached: Sequence[ReplayResult],
    ended: str,
    output: str,
    warnings: Sequence[str],
) -> ReplayError:
    what = options.build or " ".join(options.command)
    lines = [f"`{what}` never reached step {snapshot.step}: {ended}"]
    lines += [note for result in unreached for note in result.notes]
    events = [event for event in snapshot.steps[0].events if event.site] if snapshot.steps else []
    if events:
        lines.append("expected at " + ", ".join(dict.fromkeys(e.site for e in events[:3])))
    instead = list(dict.fromkeys(place for result in unreached for place in result.instead))
    if instead:
        lines.append(f"reached instead: {'; '.join(instead)}")
    if not unreached:
        lines.append("no process of the script loaded the framework and ended normally")
    lines += [f"note: {warning}" for warning in warnings]
    own = [line for line in output.splitlines() if line.startswith("mothtrap: ")]
    lines += [line.removeprefix("mothtrap: ") for line in own[:3]]
    tail = output.strip().splitlines()[-SHOWN_LINES:]
    if tail:
        lines.append("its last output:\n    " + "\n    ".join(tail))
    return ReplayError("\n  ".join(lines))
