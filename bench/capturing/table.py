"""Lines of the bench as tables of Markdown, and their place in a page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.capturing.settings import MODELS, SETTINGS

BEGIN = "<!-- measured by bench/capture.py: begin -->"
END = "<!-- measured by bench/capture.py: end -->"

Line = Mapping[str, Any]
"""`kind`, `model`, `setting`, `by`, `machine` and `version`; then figures, or `cannot` or
`failed` with the reason; `note` describes the watched data."""
Column = tuple[str, Callable[[Line], str]]


def _number(name: str, digits: int = 3) -> Callable[[Line], str]:
    return lambda line: rounded(line[name], digits)


def _interval(name: str, form: str) -> Callable[[Line], str]:
    def cell(line: Line) -> str:
        value, low, high = (format(number, form) for number in line[name])
        return f"{value} [{low}, {high}]"

    return cell


COLUMNS: dict[str, Sequence[Column]] = {
    "pairs": (
        ("pairs", lambda line: str(line["pairs"])),
        ("processes", lambda line: str(line.get("processes", 1))),
        ("plain ms", _number("plain_ms")),
        ("watched ms", _number("watched_ms")),
        ("ratio", _interval("ratio", ".3f")),
        ("plain p99 ms", _number("plain_p99_ms")),
        ("watched p99 ms", _number("watched_p99_ms")),
        ("added ms", _interval("added_ms", ".3g")),
        ("own ms, reported", _number("own_ms")),
        ("plain CPU ms", _number("plain_cpu_ms")),
        ("watched CPU ms", _number("watched_cpu_ms")),
        ("CPU ratio", _interval("cpu_ratio", ".3f")),
        ("kB/step", _number("kB_per_step")),
        ("peak MB", _number("peak_mb")),
    ),
    "p99": (
        ("steps", lambda line: str(line["steps"])),
        ("processes", lambda line: str(line.get("processes", 1))),
        ("plain ms", _number("plain_ms")),
        ("watched ms", _number("watched_ms")),
        ("plain p99 ms", _number("plain_p99_ms")),
        ("watched p99 ms", _number("watched_p99_ms")),
        ("ratio of the p99", _interval("p99_ratio", ".3f")),
    ),
    "long": (
        ("steps", lambda line: str(line["steps"])),
        ("MB at first", _number("first_mb", 5)),
        ("second tenth", _number("settled_mb", 5)),
        ("last tenth", _number("last_mb", 5)),
        ("growth MB", lambda line: f"{line['growth_mb']:+.2f}"),
        ("peak MB beyond the first", _number("peak_mb")),
        ("kB/step", _number("kB_per_step")),
    ),
}
TITLES = {
    "pairs": "Plain and watched steps in turn; ratio, added and CPU ratio: median over the pairs "
    "[95 % bootstrap interval].",
    "p99": "Single steps, in turns of ten.",
    "long": "Resident memory of watched steps, one after another.",
}


def rounded(value: float | None, digits: int = 3) -> str:
    """A number with this many significant digits, without rounding integer digits; a dash for
    None."""
    if value is None:
        return "-"
    if abs(value) >= 10 ** (digits - 1):
        return f"{value:.0f}"
    return f"{value:.{digits}g}"


def row(line: Line) -> str:
    """One line of a table; a line without figures contains the reason."""
    columns = COLUMNS[line["kind"]]
    if "cannot" in line or "failed" in line:
        why = f"cannot: {line['cannot']}" if "cannot" in line else f"failed: {line['failed']}"
        cells = [why.replace("|", "/"), *[""] * (len(columns) - 1)]
    else:
        cells = [cell(line) for _, cell in columns]
    return "| " + " | ".join((line["model"], line["setting"], named(line), *cells)) + " |"


def named(line: Line) -> str:
    """Who did it, with the version."""
    return f"{line['by']} {line.get('version', '')}".strip()


def header(kind: str) -> str:
    """The two lines above the first row."""
    names = ["model", "setting", "by", *(name for name, _ in COLUMNS[kind])]
    return "| " + " | ".join(names) + " |\n" + "|---" * len(names) + "|"


def tables(lines: Iterable[Line]) -> str:
    """All lines in tables, by machine and kind; of repeated measurements, the last one counts."""
    latest = {_key(line): line for line in lines}
    ordered = sorted(latest.values(), key=_order)
    parts: list[str] = []
    for machine in dict.fromkeys(line["machine"] for line in ordered):
        parts.append(f"{machine}.")
        here = [line for line in ordered if line["machine"] == machine]
        for kind in COLUMNS:
            rows = [line for line in here if line["kind"] == kind]
            if rows:
                parts += [TITLES[kind], "\n".join((header(kind), *map(row, rows)))]
        notes = {
            f"- {named(line)}, {line['setting']}: {line['note']}": None
            for line in here
            if line.get("note")
        }
        if notes:
            parts.append("\n".join(notes))
    return "\n\n".join(parts)


def put_between(page: Path, text: str) -> None:
    """Replace the text between the markers of a page.

    Raises:
        ValueError: the page has not both markers, in their order, once.
    """
    before, begin, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end or BEGIN in after or END in after or END in before:
        raise ValueError(f"{page}: wanted {BEGIN} and then {END}, each once, on lines of their own")
    page.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", encoding="utf-8")


def _key(line: Line) -> tuple[str, ...]:
    return tuple(line[name] for name in ("machine", "kind", "model", "setting", "by"))


def _order(line: Line) -> tuple[Any, ...]:
    models, settings = list(MODELS), list(SETTINGS)
    return models.index(line["model"]), settings.index(line["setting"])
