"""Lines of the script around a place that a finding names, as they were in the run."""

from __future__ import annotations

from pathlib import Path

import msgspec

from mothtrap.core.errors import MothtrapError, UnknownNameError
from mothtrap.core.findings import Finding
from mothtrap.core.masking import without_secrets
from mothtrap.reader.run import Run
from mothtrap.store.source_digests import digests_of

AROUND = 4
"""Lines before and after."""
MAX_BYTES = 4 << 20
MAX_LINE = 400


class SourceAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Lines of a source file around a location; `problem` explains why there are no lines."""

    location: str
    first: int = 1
    line: int = 0
    lines: tuple[str, ...] = ()
    problem: str = ""


def source_answer(run: Run, fingerprint: str) -> SourceAnswer:
    """Return the source lines around the location of a finding.

    Raises:
        UnknownNameError: the run has no such finding.
    """
    finding = next((f for f in run.findings if f.fingerprint == fingerprint), None)
    if finding is None:
        raise UnknownNameError(f"{run.id} has no finding {fingerprint!r}")
    return source_lines(run, finding)


def source_lines(run: Run, finding: Finding) -> SourceAnswer:
    """Return the source lines around the location of a run's finding.

    Apart from texts stored in the run, only files of the script are read, and only if their digest
    matches the run's record. So a run cannot reveal a file whose contents its creator did not know.
    """
    return lines_at(run, finding.location or "")


def lines_at(run: Run, location: str, around: int = AROUND) -> SourceAnswer:
    """Return the lines around a location, `file:line`, of a run's script."""
    file, _, number = location.rpartition(":")
    if not file or not (number.isascii() and number.isdecimal()):
        return SourceAnswer(location=location, problem="This finding has no source line.")
    text, problem = run.source_texts().get(file), ""
    if text is None:
        text, problem = unchanged_source(run, file)
    if text is None:
        return SourceAnswer(location=location, problem=problem)
    every, line = without_secrets(text).splitlines(), int(number)
    first = max(1, line - around)
    lines = tuple(each[:MAX_LINE] for each in every[first - 1 : line + around])
    if not 1 <= line <= len(every):
        return SourceAnswer(location=location, problem=f"{file} has only {len(every)} lines.")
    return SourceAnswer(location=location, first=first, line=line, lines=lines)


def source_files(run: Run) -> list[str]:
    """Return the source files of the script with a recorded digest."""
    try:
        ledger = run.ledger()
    except MothtrapError:
        return []
    return list(ledger.facts.get("sources", {})) if ledger else []


def unchanged_source(run: Run, file: str) -> tuple[str | None, str]:
    """Return the text of a file if it is unchanged since the run, otherwise None and the reason."""
    try:
        ledger = run.ledger()
    except MothtrapError:
        ledger = None
    then = ledger.facts.get("sources", {}).get(file) if ledger else None
    if ledger is None or then is None:
        return None, f"The run did not record the content of {file}, so its lines are not shown."
    folder = Path(ledger.cwd)
    now = digests_of([file], folder).get(file)
    path = folder / file
    try:
        if now is None or path.stat().st_size > MAX_BYTES:
            return None, f"{file} is not in {folder} on this machine."
        if now != then:
            return None, (
                f"{file} was changed after the run began; the line numbers refer to the old file."
            )
        return path.read_text(encoding="utf-8", errors="replace"), ""
    except OSError as err:
        return None, f"{file} cannot be read: {err.strerror}."
