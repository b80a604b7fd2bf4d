"""State of a script's git repository, read with git."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from mothtrap.core.ledger import DIFF_CHARACTERS, Source
from mothtrap.core.masking import without_secrets
from mothtrap.core.working_folder import working_folder
from mothtrap.session.closing_descriptors import has_pipes
from mothtrap.store.layout import write_source

TIMEOUT_S = 10.0
"""Time limit for all queries together; chosen by hand: it is exceeded only by large repositories on
slow disks.
"""
CHANGED = 500
"""Maximum number of stored names of changed files."""


def read_source(folder: Path) -> Source:
    """Read the state of a folder's git repository; never raises. Secrets in changes are masked.

    It takes no lock, writes nothing, and runs no hook or pager.
    """
    until_s = time.monotonic() + TIMEOUT_S
    try:
        commit = git(folder, until_s, "rev-parse", "HEAD").strip()
        branch = git(folder, until_s, "rev-parse", "--abbrev-ref", "HEAD").strip()
        status = git(folder, until_s, "status", "--porcelain", "-z", "--untracked-files=no")
        changed = [entry[3:] for entry in status.split("\0") if entry[2:3] == " "]
        shown = ("diff", "HEAD", "--no-color", "--no-ext-diff", "--no-textconv")
        diff = git(folder, until_s, *shown) if changed else ""
    except FileNotFoundError:
        return Source(error="git is not installed")
    except subprocess.TimeoutExpired:
        return Source(error=f"git took longer than {TIMEOUT_S:g} s")
    except (subprocess.CalledProcessError, OSError) as err:
        return Source(error=_reason(err, folder))
    return Source(
        commit=commit,
        branch="" if branch == "HEAD" else branch,
        changed=tuple(changed[:CHANGED]),
        changed_count=len(changed),
        diff=without_secrets(diff[:DIFF_CHARACTERS]),
        cut=len(diff) > DIFF_CHARACTERS,
    )


class SourceKeeper:
    """Writes `source.json` of an attempt on its own thread.

    Args:
        attempt: folder of the attempt.
        folder: folder of the script.
    """

    def __init__(self, attempt: Path, folder: Path) -> None:
        self._thread = threading.Thread(
            target=self._keep, args=(attempt, folder), name="mothtrap-source", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Wait for the file to be written, with a time limit."""
        self._thread.join(TIMEOUT_S)

    @staticmethod
    def _keep(attempt: Path, folder: Path) -> None:
        with has_pipes:
            source = read_source(folder)
        with suppress(OSError):  # a full disk is reported by the run
            write_source(attempt, source)


def script_folder(command: Sequence[str]) -> Path:
    """Return the folder of a command's script, or the working directory."""
    scripts = [Path(word) for word in command if word.endswith(".py")]
    return scripts[0].absolute().parent if scripts and scripts[0].is_file() else working_folder()


def git(folder: Path, until_s: float, *words: str) -> str:
    """Return the output of a git command in a folder.

    Args:
        folder: folder inside the repository.
        until_s: monotonic time at which to give up.
        *words: arguments of git.

    Raises:
        subprocess.SubprocessError: git failed, or took too long.
        OSError: git is not installed.
    """
    done = subprocess.run(
        ["git", "-C", str(folder), *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
        timeout=max(0.1, until_s - time.monotonic()),
        env={**os.environ, "GIT_OPTIONAL_LOCKS": "0", "GIT_PAGER": "cat", "LC_ALL": "C"},
    )
    return done.stdout.decode("utf-8", "replace")


def _reason(err: subprocess.CalledProcessError | OSError, folder: Path) -> str:
    if isinstance(err, subprocess.CalledProcessError):
        said = err.stderr.decode("utf-8", "replace").strip().partition("\n")[0]
        return f"{folder}: git says: {said}" if said else f"{folder}: git failed"
    return str(err)
