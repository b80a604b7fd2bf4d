"""The record of a run in a few lines: parameters, data, code, packages, who, when, outcome."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mothtrap.core.labels import Labels
from mothtrap.core.ledger import LedgerValue
from mothtrap.core.masking import shareable
from mothtrap.reader.run_record import Record
from mothtrap.report.style import PLAIN, WIDTH, Style, count_of

if TYPE_CHECKING:
    from mothtrap.reader.run import Run

MAX_PARAMETERS = 12
MAX_DATA = 4
MAX_METRICS = 8
MAX_NOTES = 3
"""Maximum number of notes and tags, unless everything is requested; chosen by hand: two lines."""
MAIN_PACKAGES = (
    *("torch", "tensorflow", "keras", "jax", "flax", "numpy", "xgboost", "lightgbm", "catboost"),
    *("sklearn", "lightning", "transformers", "accelerate", "datasets"),
)


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Record of a run for reports; `metrics` are the last values by name."""

    record: Record
    metrics: dict[str, float]
    labels: Labels
    state: str = ""


def recorded(run: Run) -> RunRecord:
    """Return the record of a run for reports, without secrets."""
    return shareable(
        RunRecord(record=run.record, metrics=run.metrics, labels=run.labels, state=run.state)
    )


def record_lines(told: RunRecord, style: Style = PLAIN, *, everything: bool = False) -> list[str]:
    """Return the record as lines, one per question.

    Args:
        told: record of the run.
        style: capabilities of the stream.
        everything: all parameters, data sets, packages and notes.
    """
    lines: list[str] = []
    for name, value in answers(told, everything=everything).items():
        lines += _wrapped(f"  {name:<12}", style.safe(value))
    return lines


def answers(told: RunRecord, *, everything: bool = False) -> dict[str, str]:
    """Return the known answers by question.

    Args:
        told: record of the run.
        everything: do not shorten any entry.
    """
    record, labels = told.record, told.labels
    notes = labels.notes if everything else labels.notes[-MAX_NOTES:]
    found = {
        "tags": ", ".join(labels.tags),
        "group": labels.group,
        "notes": "; ".join(note.text + (f" ({note.by})" if note.by else "") for note in notes),
        "parameters": parameters(record, everything=everything),
        "data": _data(record, everything=everything),
        "code": code(record),
        "packages": packages(record, everything=everything),
        "who": f"{record.user or 'unknown'} on {record.host}" if record.host else "",
        "machine": machine(record),
        "when": when(record, told.state),
        "outcome": outcome(told, everything=everything),
        "weights": saved_weights(record),
        "logged": logged(record),
    }
    return {name: text for name, text in found.items() if text}


def parameters(record: Record, *, everything: bool = False) -> str:
    """Return the parameters in one line, explicitly given parameters first."""
    names = sorted(record.parameters, key=lambda name: name not in record.given)
    shown = names if everything else names[:MAX_PARAMETERS]
    text = ", ".join(f"{name}={value_text(record.parameters[name])}" for name in shown)
    more = len(names) - len(shown)
    text += f" and {more:,} more" if more > 0 else ""
    return text + (f" ({record.parameters_from})" if text and record.parameters_from else "")


def code(record: Record) -> str:
    """Return the script, its commit, and whether there are uncommitted changes."""
    files = ", ".join(f"{name} ({digest[:8]})" for name, digest in [*record.sources.items()][:3])
    more = len(record.sources) - 3
    parts = [files + (f" and {more} more" if more > 0 else "")] if files else []
    if record.commit:
        branch = f" ({record.branch})" if record.branch else ""
        changed = count_of(record.changed_count, "file")
        dirty = f", {changed} changed" if record.changed_count else ""
        parts.append(f"commit {record.commit[:12]}{branch}{dirty}")
    return ", ".join(parts)


def packages(record: Record, *, everything: bool = False) -> str:
    """Return the versions of Python and of frameworks, and the number of other packages."""
    known = record.packages
    names = [name for name in ("python", *MAIN_PACKAGES) if name in known]
    if everything:
        names += [name for name in known if name not in names]
    text = ", ".join(f"{name} {known[name]}" for name in names)
    more = len(known) - len(names)
    return text + (f" and {more} more" if more > 0 else "")


def machine(record: Record) -> str:
    """Return the processor, memory and accelerators."""
    found = record.machine
    parts = [str(found["processor"])] if found.get("processor") else []
    parts += [f"{found['usable_cores']} cores"] if found.get("usable_cores") else []
    parts += [f"{found['memory_gib']} GiB"] if found.get("memory_gib") else []
    own = ("processor", "usable_cores", "cores", "memory_gib", "system", "machine")
    return ", ".join([*parts, *(f"{n} {v}" for n, v in found.items() if n not in own)])


def when(record: Record, state: str) -> str:
    """Return start, end and duration, in this machine's local time.

    A run without a launcher, such as a run of `mothtrap.watch`, records no end.
    """
    if not record.started_s:
        return ""
    began = _time(record.started_s)
    if not record.ended_s:
        return f"since {began}" if state == "running" else f"began {began}"
    return f"{began} to {_time(record.ended_s)} ({duration(record.ended_s - record.started_s)})"


def outcome(told: RunRecord, *, everything: bool = False) -> str:
    """Return how the run ended, and the last value of each metric."""
    names = list(told.metrics) if everything else list(told.metrics)[:MAX_METRICS]
    parts = [told.state, count_of(told.record.steps, "step")]
    parts += [f"{name} {told.metrics[name]:.6g}" for name in names]
    more = len(told.metrics) - len(names)
    return ", ".join(filter(None, parts)) + (f" and {more} more metrics" if more > 0 else "")


def saved_weights(record: Record) -> str:
    """Return the step at which weights were last saved, if known."""
    return f"last saved after {count_of(record.saved[-1].step, 'step')}" if record.saved else ""


def logged(record: Record) -> str:
    """Return the number of logged items of each kind."""
    nouns = {"text": "text", "predictions": "set of predictions"}
    counts = Counter(item.kind for item in record.items)
    texts = [
        count_of(n, nouns.get(k, k)).replace("set of predictionss", "sets of predictions")
        for k, n in counts.items()
    ]
    return ", ".join(texts)


def value_text(value: LedgerValue) -> str:
    """Format a value for readers."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def duration(seconds: float) -> str:
    """Format a duration in its two largest units: `6.2 h`, `3 min 20 s`.

    Example:
        >>> duration(22320), duration(200), duration(3.14)
        ('6.2 h', '3 min 20 s', '3.1 s')
    """
    if seconds >= 48 * 3600:
        return f"{seconds / 86400:.1f} days"
    if seconds >= 3600:
        return f"{seconds / 3600:.1f} h"
    if seconds >= 60:
        minutes, rest = divmod(round(seconds), 60)
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.2g} s"


def differing(first: Mapping[str, LedgerValue], second: Mapping[str, LedgerValue]) -> list[str]:
    """Return the names of parameters that differ between two runs."""
    names = dict.fromkeys((*first, *second))
    return [name for name in names if first.get(name) != second.get(name)]


def _data(record: Record, *, everything: bool) -> str:
    shown = record.data if everything else record.data[:MAX_DATA]
    parts = []
    for data in shown:
        name = data.what if "/" in data.what else data.what.rpartition(".")[2]
        name = Path(data.what).name if "/" in data.what and not everything else name
        about = ", ".join(filter(None, (data.about, data.digest)))
        parts.append(f"{name} ({about})" if about else name)
    more = len(record.data) - len(shown)
    return "; ".join(parts) + (f" and {more} more" if more > 0 else "")


def _time(at_s: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at_s))


def _wrapped(head: str, text: str) -> list[str]:
    """Wrap a text after a heading, and align its lines."""
    width, lines, line = WIDTH - len(head), [], ""
    for word in text.split(" "):
        if line and len(line) + 1 + len(word) > width:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}" if line else word
    lines.append(line)
    return [(head if n == 0 else " " * len(head)) + each for n, each in enumerate(lines)]
