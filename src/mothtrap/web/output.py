"""The last lines of a job's output, from where they were kept."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from mothtrap.reader.run import Run
from mothtrap.store import layout
from mothtrap.store.output_log import kept_output
from mothtrap.store.plain_files import open_plain

MOST_LINES = 10_000
MOST_BYTES = 4 << 20
"""Of the end of a file that are read at once; chosen by hand: lines of 400 characters."""
MAX_LINE = 2_000
NOT_KEPT = (
    "No output was stored. `mothtrap run` stores the output of a terminal or a pipe only with "
    "`--keep-output`, and the output to a file always (mothtrap run train.py > train.log 2>&1)."
)


class OutputAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Lines of output, last line last.

    `next` is the position at which to continue; `cut`: earlier output is missing. `problem` is the
    reason if there are no lines.
    """

    lines: tuple[str, ...] = ()
    next: int = 0
    cut: bool = False
    problem: str = ""


def answer(run: Run, *, after: int = -1, most: int = MOST_LINES) -> OutputAnswer:
    """Return the last lines of output, or the lines since an earlier answer.

    Args:
        run: the run; the latest attempt with stored output is used.
        after: `next` of an earlier answer; -1 returns the last lines.
        most: lines, 1 to `MOST_LINES`.
    """
    attempts = reversed(layout.attempts(run.path))  # torchrun's restarts write where the first did
    found = (kept_output(layout.attempt_folder(run.path, number)) for number in attempts)
    kept = next((files for files in found if files), None)
    if kept is None:
        return OutputAnswer(problem=NOT_KEPT)
    try:
        return _lines(kept, after, min(max(most, 1), MOST_LINES))
    except OSError as err:
        return OutputAnswer(problem=f"The output cannot be read: {err.strerror}.")


def _lines(kept: list[tuple[int, Path]], after: int, most: int) -> OutputAnswer:
    begin, data = _bytes_from(kept, after)
    whole = data.rpartition(b"\n")[0] + b"\n" if b"\n" in data else b""
    cut = after < 0 and begin > 0
    first = whole.find(b"\n") + 1 if cut else 0  # the first line began before
    rest = data[len(whole) :] if after < 0 else b""
    lines = whole[first:].decode("utf-8", "replace").split("\n")[:-1]
    lines += [rest.decode("utf-8", "replace")] if rest else []
    return OutputAnswer(
        lines=tuple(_last_version(line) for line in lines[-most:]),
        next=begin + len(whole) + len(rest),
        cut=cut or len(lines) > most,
    )


def _bytes_from(kept: list[tuple[int, Path]], after: int) -> tuple[int, bytes]:
    """The end of the output, from an offset on, and the offset at which it begins."""
    sizes = [path.lstat().st_size for _, path in kept]
    end = kept[-1][0] + sizes[-1]
    begin = max(kept[0][0], after if after <= end else 0, end - MOST_BYTES)
    data = b""
    for start, path in kept:
        with os.fdopen(open_plain(path, follow=False), "rb") as file:
            file.seek(max(0, begin - start))
            data += file.read(MOST_BYTES)
    return begin, data


def _last_version(line: str) -> str:
    r"""A line as a terminal shows it at last: progress bars write it again after `\r`."""
    versions = [part for part in line.split("\r") if part]
    return versions[-1][:MAX_LINE] if versions else ""
