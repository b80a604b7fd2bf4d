"""Start a job as a child process, forward its input, output and signals, and print the verdict."""

from __future__ import annotations

import os
import platform
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from mothtrap.capture.containment import say_on_stderr
from mothtrap.core.config import Config, environment, is_disabled, located, plain
from mothtrap.core.errors import ConfigError, RunExistsError
from mothtrap.core.own_version import own_version
from mothtrap.core.run_names import MAX_NAME_BYTES
from mothtrap.core.runs import STOPPED, RunEnd, RunInfo, RunKind
from mothtrap.core.working_folder import working_folder
from mothtrap.session import uploading
from mothtrap.session.beside_job import WRITERS_TIMEOUT_S, BesideJob
from mothtrap.session.job_process import end_like, run_command
from mothtrap.session.joining import join_run
from mothtrap.session.output_keeper import OutputKeeper
from mothtrap.session.output_tee import OutputTee
from mothtrap.session.own_runs import signed
from mothtrap.session.repository import SourceKeeper, script_folder
from mothtrap.session.resuming import launcher_of, next_attempt, restarts_of
from mothtrap.session.site_folder import SITE
from mothtrap.session.triggers import triggers
from mothtrap.store import layout, reserve
from mothtrap.store.manifests import Node
from mothtrap.store.processes import start_ticks
from mothtrap.store.remarks import user_name
from mothtrap.store.writers import wait_for_writers

RECORDED_COLLECTIVES = "TORCH_FR_BUFFER_SIZE"
"""Number of collective operations that PyTorch's flight recorder keeps, for jobs that hang. A value
set by the user is kept.
"""


def launch(
    command: Sequence[str],
    *,
    config: Config,
    name: str | None,
    resume: bool = False,
    join: bool = False,
    warnings: Sequence[str] = (),
    report: str | None = None,
    after_verdict: Callable[[Path], None] | None = None,
    descriptors: Sequence[int] = (),
    kind: RunKind = RunKind.TRAIN,
    variables: Callable[[Path], Mapping[str, str]] = lambda _: {},
    began_s: float | None = None,
    keeps_output: bool = False,
) -> int:
    """Run a command under observation and print the verdict.

    Args:
        command: program and arguments, as they would be typed without mothtrap.
        config: settings of the run.
        name: name of the run; None = script and time.
        resume: continue the run of that name with its next attempt, if it exists.
        join: join the run of that name, which the launcher on another machine creates.
        warnings: lines to print before the start.
        report: file for a report when the job has ended.
        after_verdict: called with the folder of the run after its verdict was printed.
        descriptors: descriptors from 3 up that the command inherits, and this process closes.
        kind: kind of the run.
        variables: returns further environment variables of the command, given the folder of
            the attempt.
        began_s: Unix time at which this process was started for the run; None = now.
        keeps_output: keep the end of the output even if it goes to a terminal or a pipe.

    Returns:
        The exit code of the command. Does not return if a signal ended it: this process then ends
        by the same signal.

    Raises:
        RunExistsError: a run of that name exists, or the run to be resumed is still running.
        ConfigError: a rule or threshold of the configuration does not exist, or the object
            store cannot be used.
    """
    began_s = time.time() if began_s is None else began_s
    for warning in warnings:
        say_on_stderr(f"mothtrap: {warning}")
    if config.names_rules:
        _check(config)
    if is_disabled(os.environ):
        return end_like(run_command(command, os.environ, descriptors))
    try:
        if join and name:
            attempt = join_run(config.runs_dir, name)
        else:
            attempt = _create(command, config, name, resume, kind)
    except RunExistsError:
        raise
    except OSError as err:
        say_on_stderr(
            f"mothtrap: cannot store anything ({err}); the job continues unobserved; choose a "
            "writable folder with --runs-dir"
        )
        return end_like(run_command(command, os.environ, descriptors))
    node = Node.of_this_process() if config.workers == "merged" else None
    uploader = uploading.begin(
        attempt.parent, config, say_on_stderr, numbered=name is None, ask=True, node=node
    )
    if join:
        return end_like(_take_part(command, attempt, config, uploader, descriptors, node))
    reserve.hold(attempt)
    source = SourceKeeper(attempt, script_folder(command))
    before_s = time.time() - began_s
    beside = BesideJob(attempt, config, compacts=uploader is None, before_s=before_s, node=node)
    with OutputKeeper(attempt), OutputTee(attempt, keeps_output) as tee:
        environ = child_environment(attempt, config) | dict(variables(attempt))
        code = run_command(command, environ, descriptors, beside.children, tee.streams, tee.started)
        tee.finish()  # before any message about the job
        beside.job_ended()
    from mothtrap.session.verdict import print_next_steps, print_verdict, write_report

    code = (
        config.stop_exit_code if beside.was_killed else exit_code_of(code, attempt.parent, config)
    )
    source.close()
    reserve.release(attempt)
    store_end(beside, code)
    written_s = time.monotonic()
    beside.close_actions()
    run = print_verdict(attempt.parent, config, since_s=written_s)
    beside.finish_recheck()
    if after_verdict is not None:
        after_verdict(attempt.parent)
    if run is not None:
        print_next_steps(run)
    if report is not None:
        write_report(attempt.parent, config, report)
    if uploader is not None:
        uploader.finish()
    beside.compact()
    return end_like(code)


def _check(config: Config) -> None:
    from mothtrap.monitor.catalogue import left_out_of, load_rules
    from mothtrap.monitor.reactions import load_reactions

    try:
        for fault in left_out_of(config.rule_files):
            say_on_stderr(f"mothtrap: {fault}")
        load_rules(config)
        load_reactions(config)
    except ConfigError as err:
        raise located(err, start=working_folder(), environ=os.environ) from err


def store_end(beside: BesideJob, code: int) -> None:
    """Record how a job ended in its latest attempt, if the disk allows it."""
    with suppress(OSError):
        end = RunEnd(
            exit_code=code,
            ended_s=time.time(),
            lost=beside.lost,
            order_seen=beside.order_seen,
            files=layout.stored_files(beside.latest),
            launcher_s=beside.launcher_s,
        )
        layout.write_end(beside.latest, end)


def _take_part(
    command: Sequence[str],
    attempt: Path,
    config: Config,
    uploader: uploading.Uploader | None,
    descriptors: Sequence[int],
    node: Node | None,
) -> int:
    """Run the command; the creator of the run also compares the workers and ends the run."""
    merging = None
    if node is not None:
        from mothtrap.session.node_merging import NodeMerging

        merging = NodeMerging(attempt, config, node)
        merging.begin()
    code = run_command(command, child_environment(attempt, config), descriptors)
    wait_for_writers(attempt, WRITERS_TIMEOUT_S)
    if merging is not None:
        merging.close()
    if uploader is not None:
        uploader.finish()
    return exit_code_of(code, attempt.parent, config)


def exit_code_of(code: int, run: Path, config: Config) -> int:
    """Return the exit code of a job: the configured code if the job was stopped on request.

    Threads and a bare `except` hide the code of a `SystemExit`, and launchers of workers replace it
    with their own.
    """
    if code < 0:
        return code
    from mothtrap.reader.run import open_run

    try:
        stopped = open_run(run)
        if stopped.stop_reason is not None:
            return config.stop_exit_code
        return STOPPED if stopped.stopped_at is not None else code
    except Exception:  # damaged data is reported with the verdict
        return code


def child_environment(attempt: Path, config: Config) -> dict[str, str]:
    """Return an environment in which every Python process of a job is observed."""
    paths = [str(SITE), os.environ.get("PYTHONPATH", "")]
    return {
        RECORDED_COLLECTIVES: "100",
        **os.environ,
        **run_variables(attempt, config),
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
    }


def run_variables(attempt: Path, config: Config) -> dict[str, str]:
    """Return the variables that pass the run, its settings, and the targets to a process."""
    return {
        **environment(config),
        "MOTHTRAP_RUN_DIR": str(attempt.absolute()),
        "MOTHTRAP_FRAMEWORKS": ",".join(triggers()),
    }


def run_info(
    name: str, command: Sequence[str], config: Config, kind: RunKind = RunKind.TRAIN
) -> RunInfo:
    """Return the content of `run.json` for a job started by this process, or for this process."""
    info = RunInfo(
        id=name,
        attempt=1,
        command=tuple(command),
        cwd=str(working_folder()),
        created_s=time.time(),
        pid=os.getpid(),
        pid_ticks=start_ticks(os.getpid()),
        host=socket.gethostname(),
        python=platform.python_version(),
        mothtrap=own_version(),
        config=plain(config),
        launcher=launcher_of(os.environ) if os.environ.get("RANK", "0") == "0" else "",
        restarts=restarts_of(os.environ),
        user=user_name(),
        kind=kind,
    )
    return signed(info)


def probe() -> str | None:
    """Start a child as `launch` does; return why the start-up hook did not run, or None."""
    report = "import sys; print(any(type(f).__name__ == '_AfterImport' for f in sys.meta_path))"
    environment = child_environment(Path("probe"), Config())
    try:
        found = subprocess.run(
            [sys.executable, "-c", report],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
    except (OSError, subprocess.TimeoutExpired) as err:
        return f"cannot start {sys.executable}: {err}"
    if found.stdout.strip() == "True":
        return None
    return found.stderr.strip() or (
        "another sitecustomize, or an option of Python, prevents it from loading"
    )


def default_name(command: Sequence[str]) -> str:
    """Return `<script stem>-<YYYYmmdd-HHMMSS>`; for `-m`, the last part of the module name."""
    scripts = [working_folder() / word for word in command if word.endswith(".py")]
    stems = [path.parent.name if path.stem == "__main__" else path.stem for path in scripts]
    if "-m" in command and command.index("-m") + 1 < len(command):
        stems.append(command[command.index("-m") + 1].rpartition(".")[2])
    stem = stems[0] if stems else Path(command[0]).stem
    while len(os.fsencode(stem)) > MAX_NAME_BYTES - len("-YYYYmmdd-HHMMSS"):
        stem = stem[:-1]
    return f"{stem}-{time.strftime('%Y%m%d-%H%M%S')}"


def create(
    name: str,
    info_of: Sequence[str],
    config: Config,
    *,
    numbered: bool,
    kind: RunKind = RunKind.TRAIN,
) -> Path:
    """Create the folder of a run, in a temporary folder if `runs_dir` is not writable.

    If runs are stored in an object store, the folder is uploaded there.

    Args:
        name: name of the run.
        info_of: the command.
        config: settings.
        numbered: make a name that is taken unique instead of raising `RunExistsError`.
        kind: kind of the run.

    Returns:
        The folder of the first attempt.

    Raises:
        RunExistsError: the name is already used.
        OSError: not even a temporary folder can be written.
    """
    parent = uploading.folder_for(config.runs_dir)
    for number in range(1, 1000):
        chosen = name if number == 1 else f"{name}-{number}"
        try:
            return layout.create_run(parent / chosen, run_info(chosen, info_of, config, kind))
        except RunExistsError:
            if not numbered:
                raise
        except OSError as err:
            temporary = Path(tempfile.mkdtemp(prefix="mothtrap-"))
            reason = "it is a file" if parent.is_file() else err.strerror
            say_on_stderr(
                f"mothtrap: cannot write runs to {parent} ({reason}); this run is kept in "
                f"{temporary / chosen}; choose another folder with --runs-dir"
            )
            info = run_info(chosen, info_of, config, kind)
            return layout.create_run(temporary / chosen, info)
    raise RunExistsError(
        f"cannot create the run {name!r}: {parent} already has 1000 runs of this name; remove some"
    )


def _create(
    command: Sequence[str], config: Config, name: str | None, resume: bool, kind: RunKind
) -> Path:
    if resume and name and layout.attempts(run := uploading.bring_back(config.runs_dir, name)):
        number = next_attempt(run)
        anew = msgspec.structs.replace(run_info(name, command, config), attempt=number)
        return layout.create_attempt(run, anew)
    return create(name or default_name(command), command, config, numbered=name is None, kind=kind)
