"""Command and folder with which the script of a snapshot is restarted."""

from __future__ import annotations

import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from mothtrap.core.errors import DamagedDataError, MothtrapError, ReplayError
from mothtrap.core.masking import MASKED, arguments_without_secrets
from mothtrap.core.runs import RunInfo, has_script
from mothtrap.core.snapshots import Snapshot
from mothtrap.core.texts import printable
from mothtrap.core.working_folder import working_folder
from mothtrap.reader.run import open_run
from mothtrap.session.own_runs import is_here, is_own
from mothtrap.store import layout


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Command that a replay will execute.

    Attributes:
        command: command of the script; empty if `--build` replaces it.
        folder: folder in which it is started.
        foreign: origin of the command or folder, if they do not come from the user.
        running: whether the run is still active in that folder.
    """

    command: tuple[str, ...]
    folder: str
    foreign: str = ""
    running: bool = False

    @property
    def words(self) -> str:
        """Return the command as typed in a shell.

        Secrets are masked in the user's own command. The command of another user is shown unmasked,
        so that it can be checked.
        """
        if not self.command:
            return f"the --build function in {printable(self.folder)}"
        line = shlex.join(self.command if self.foreign else arguments_without_secrets(self.command))
        return printable(f"`{line}` in {self.folder}")


def start_of(
    run: Path,
    snapshot: Snapshot,
    command: tuple[str, ...] = (),
    folder: str | None = None,
    *,
    build: bool = False,
) -> Start:
    """Determine what a replay will execute.

    Args:
        run: folder of the run.
        snapshot: snapshot of the step.
        command: command from the user; empty = the recorded one.
        folder: folder from the user; None = the folder of the run.
        build: the user specified a function instead of a command.

    Raises:
        ReplayError: there is no command to execute, or no such folder.
    """
    info = _info(run, snapshot)
    recorded = () if command or build else _recorded(info, snapshot)
    here = folder_of(snapshot, folder)
    return Start(
        command=command or recorded,
        folder=here,
        foreign=_foreign(info, command=bool(recorded), folder=here if folder is None else None),
        running=not build and folder is None and _is_running(run),
    )


def _foreign(info: RunInfo | None, *, command: bool, folder: str | None) -> str:
    """Return the origin of the command or folder that a run names; "" if they are this user's.

    Python imports modules from the folder in which it starts, so a folder is as critical as a
    command.

    Args:
        info: description of the attempt.
        command: the command comes from the run, not from the user.
        folder: folder that the run names; None if the user specified one.
    """
    elsewhere = folder is not None and Path(folder) != working_folder()
    if not command and not elsewhere:
        return ""
    named = elsewhere and folder != str(Path(info.cwd).absolute() if info is not None else "")
    if info is not None and is_own(info) and not named:
        return ""
    if info is None or not info.host or is_here(info.host):
        return "an unknown machine"
    return f"another machine ({printable(info.host)})"


def folder_of(snapshot: Snapshot, folder: str | None) -> str:
    """Return the folder in which the script is started: the user's choice, or the run's.

    Raises:
        ReplayError: there is no such folder.
    """
    if folder is not None and not Path(folder).is_dir():
        raise ReplayError(
            f"--cwd {folder} is not a folder; pass the folder in which to start the script"
        )
    here = folder or (snapshot.cwd if Path(snapshot.cwd).is_dir() else str(working_folder()))
    return str(Path(here).absolute())


def _recorded(info: RunInfo | None, snapshot: Snapshot) -> tuple[str, ...]:
    command = list(info.command if info is not None else snapshot.command)
    if not command:
        raise ReplayError(
            "the snapshot does not say how its script was started; pass the command with "
            "`mothtrap replay RUN -- COMMAND`, or pass --build module:function"
        )
    if not has_script(command):
        raise ReplayError(
            f"the run was recorded in a session without a script (`{shlex.join(command)}`), so "
            "there is no script to start again; pass --build module:function, or `mothtrap "
            "replay RUN -- COMMAND`"
        )
    if any(MASKED in word for word in command):
        raise ReplayError(
            "the command of the script had a secret, which the snapshot does not store: "
            f"`{' '.join(command)}`; pass the command with `mothtrap replay RUN -- COMMAND`"
        )
    if shutil.which(command[0]) is None and "python" in Path(command[0]).name:
        command[0] = sys.executable
    return tuple(command)


def _info(run: Path, snapshot: Snapshot) -> RunInfo | None:
    try:
        return layout.read_info(layout.attempt_folder(run, snapshot.attempt))
    except (OSError, DamagedDataError):
        return None


def _is_running(run: Path) -> bool:
    try:
        return open_run(run).state == "running"
    except (MothtrapError, OSError, ValueError):  # no run, or a run that is reported elsewhere
        return False
