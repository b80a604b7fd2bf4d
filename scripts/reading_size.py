"""Count the lines that must be read for four common tasks.

A new rule needs the window, the finding and one example; a small adapter needs its base, the job
and one example. For a wrong fact about a loss in Keras, the files are those that read or change its
values on the way from the program to the fact. For a gradient, see `gradient_hops.py`.

    python scripts/reading_size.py
"""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "mothtrap"

READ = {
    "a rule": (
        SOURCE / "core" / "window.py",
        SOURCE / "core" / "found.py",
        SOURCE / "rules" / "shuffled_apart.py",
    ),
    "a small adapter": (
        SOURCE / "tracing" / "handle.py",
        SOURCE / "core" / "basic_job.py",
        ROOT / "tests" / "testing" / "toyframe_adapter.py",
    ),
    "a wrong loss fact in Keras": (
        SOURCE / "adapters" / "keras" / "loss_probes.py",
        SOURCE / "adapters" / "tensorflow" / "probes" / "slots.py",
        SOURCE / "adapters" / "tensorflow" / "probes" / "loss_records.py",
        SOURCE / "adapters" / "keras" / "loss_calls.py",
        SOURCE / "adapters" / "keras" / "losses.py",
        SOURCE / "tracing" / "describe" / "losses.py",
        SOURCE / "tracing" / "describe" / "loss_numbers.py",
    ),
}
AIMS = {"a rule": 400, "a small adapter": 350, "a wrong loss fact in Keras": 700}


def lines_to_read() -> dict[str, int]:
    """Return the number of lines of each task; blank lines and imports count, too."""
    return {
        task: sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)
        for task, files in READ.items()
    }


if __name__ == "__main__":
    for task, lines in lines_to_read().items():
        print(f"{task}: {lines} lines in {len(READ[task])} files (aim: {AIMS[task]})")
