"""Check that the tests catch planted defects: one changed line of `src` at a time.

Each defect is planted in a copy of the repository, and the tests of the packages that it touches
run there. Run it before and after a change of the tests, and compare the tables.

    python scripts/planted_defects.py                 # all of them
    python scripts/planted_defects.py cells helper    # those whose names contain a word
    python scripts/planted_defects.py --list

It exits with 1 when a defect is not caught.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
LEFT_OUT = shutil.ignore_patterns(".venv*", ".git", "build", "*_cache", "__pycache__", "peers")


@dataclass(frozen=True)
class Defect:
    """One changed line: `old`, which is in the file once, becomes `new`; `tests` must fail."""

    name: str
    path: str
    old: str
    new: str
    tests: tuple[str, ...]


TORCH = "tests/adapters/torch"
HARNESS = "tests/harness/test_training_is_not_changed.py::test_training_is_not_changed"
FAULTY = "tests/faulty/test_rules_on_real_training.py"
DEFECTS = (
    Defect(
        "torch: an optimizer's step draws a random number",
        "adapters/torch/optimization/optimizers.py",
        '        if "gradient" in due and not self.other_threads.shared:\n',
        '        torch.rand(1)\n        if "gradient" in due and not self.other_threads.shared:\n',
        (f"{HARNESS}[plain_loop-all_kinds_whole-0]", f"{HARNESS}[rnn-all_kinds_whole-0]"),
    ),
    Defect(
        "torch: a parameter of a second optimizer is read again",
        "adapters/torch/optimization/optimizers.py",
        "if id(p) not in self._captured]",
        "if id(p) in self._captured]",
        (f"{TORCH}/optimization",),
    ),
    Defect(
        "torch: a forward in training is taken for an evaluation",
        "adapters/torch/forward/forwards.py",
        "self._trains = makes_graph if asked is None else asked is Mode.TRAIN",
        "self._trains = False",
        (f"{FAULTY}::test_the_fault_is_the_root_of_the_diagnosis[dead_units-0]",),
    ),
    Defect(
        "capture: a step is counted twice",
        "capture/recorder.py",
        "        self.steps += 1\n",
        "        self.steps += 2\n",
        ("tests/capture/test_recorder.py",),
    ),
    Defect(
        "capture: the queue has no bound",
        "capture/channel.py",
        "return not self._waiting or taken + size <= self._limit_bytes * of",
        "return True",
        ("tests/session/test_memory.py", "tests/capture/test_channel.py"),
    ),
    Defect(
        "statistics: the largest absolute value is the smallest",
        "statistics/summary.py",
        'np.maximum(np.abs(column("min")), np.abs(column("max")))',
        'np.minimum(np.abs(column("min")), np.abs(column("max")))',
        ("tests/statistics",),
    ),
    Defect(
        "statistics: a mean is divided by the root of its count",
        "statistics/summary.py",
        'return column("abs_sum") / finite_T',
        'return column("abs_sum") / np.sqrt(finite_T)',
        ("tests/statistics",),
    ),
    Defect(
        "rules: a small layer is an error and a large one a warning",
        "rules/dead_units.py",
        "        if units < self.min_units:\n",
        "        if units > self.min_units:\n",
        ("tests/rules/test_dead_units.py",),
    ),
    Defect(
        "rules: a learning rate of 0 is one of 1",
        "rules/learning_rate_zero.py",
        "alone = all(series.values_S[-1] == 0 for series in every)",
        "alone = all(series.values_S[-1] == 1 for series in every)",
        ("tests/rules/test_learning_rate_zero.py",),
    ),
    Defect(
        "core: a cause loses its effects",
        "core/diagnosis.py",
        "caused_by=tuple(dict.fromkeys(ordered[c].code for c in causes_of[i])),",
        "caused_by=(),",
        ("tests/core/test_diagnosis.py",),
    ),
    Defect(
        "reader: findings come latest first",
        "reader/merging.py",
        "key=lambda f: (f.severity.rank, f.step, f.code)",
        "key=lambda f: (f.severity.rank, -f.step, f.code)",
        ("tests/reader/test_merging.py", "tests/reader/test_run.py"),
    ),
    Defect(
        "report: the share of the cost is a hundredth",
        "report/cost.py",
        '{100 * cost.ratio:.1f} % of the training time"',
        '{cost.ratio:.1f} % of the training time"',
        ("tests/report/test_cost.py",),
    ),
    Defect(
        "store: a byte between two writes is lost",
        "store/segments.py",
        "yield view[at : at + _WRITE_BYTES]",
        "yield view[at : at + _WRITE_BYTES - 1]",
        ("tests/store",),
    ),
    Defect(
        "session: the exception of a helper process ends the job",
        "session/worker.py",
        "rank is not None or (self._is_job and not self._is_of_workers())",
        "True",
        ("tests/session/test_launch.py",),
    ),
    Defect(
        "session: an exception inside of a watch is forgotten",
        "session/worker.py",
        "            **told(self._containment.ended_by),\n",
        "            **told(None),\n",
        ("tests/session/test_watching.py",),
    ),
    Defect(
        "session: what is watched is not uploaded",
        "session/uploading.py",
        "    uploader.start()\n    return uploader\n",
        "    return uploader\n",
        ("tests/session/test_uploading.py::test_a_watched_model_is_sent_by_a_thread",),
    ),
    Defect(
        "cli: a run that differs has the code of one that does not",
        "cli/diff.py",
        "ctx.exit((0 if found.same else 1) if found.compared else 2)",
        "ctx.exit(0 if found.compared else 2)",
        ("tests/cli/test_diff.py", "tests/diff"),
    ),
    Defect(
        "monitor: windows are judged one record late",
        "monitor/monitor.py",
        "return self._records % self._every == 0",
        "return self._records % self._every == 1",
        ("tests/monitor",),
    ),
    Defect(
        "tracing: a finding in a notebook points to the next cell",
        "tracing/jobs/notebooks.py",
        "return number if isinstance(number, int) else None",
        "return number + 1 if isinstance(number, int) else None",
        ("tests/session/test_notebook.py",),
    ),
    Defect(
        "tracing: the cells of a notebook are kept without their numbers",
        "tracing/jobs/notebooks.py",
        r'"\n\n".join(f"# In [{number}]\n{cell}"',
        r'"\n\n".join(f"# In\n{cell}"',
        ("tests/session/test_notebook.py",),
    ),
)


def caught(defect: Defect, folder: Path) -> bool:
    """Plant a defect in a copy of the repository, run its tests there, and take it out again."""
    path = folder / "src" / "mothtrap" / defect.path
    text = path.read_text(encoding="utf-8")
    assert text.count(defect.old) == 1, f"{defect.name}: not once in {defect.path}"
    path.write_text(text.replace(defect.old, defect.new), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *defect.tests]
    environ = os.environ | {"PYTHONPATH": str(folder / "src")}
    try:
        done = subprocess.run(
            command, cwd=folder, env=environ, capture_output=True, text=True, check=False
        )
    finally:
        path.write_text(text, encoding="utf-8")
    if done.returncode not in (0, 1):
        raise SystemExit(f"{defect.name}: the tests did not run\n{done.stdout}{done.stderr}")
    return done.returncode == 1


def main() -> int:
    """Plant the chosen defects, one after the other, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("words", nargs="*", help="parts of names of defects; none means all")
    parser.add_argument("--list", action="store_true", help="print the defects, run nothing")
    chosen = parser.parse_args()
    defects = [
        d for d in DEFECTS if not chosen.words or any(word in d.name for word in chosen.words)
    ]
    missed = 0
    with tempfile.TemporaryDirectory(prefix="planted-") as place:
        folder = Path(place) / "repository"
        if not chosen.list:
            shutil.copytree(ROOT, folder, ignore=LEFT_OUT)
        for defect in defects:
            if chosen.list:
                print(f"{defect.name}  ({defect.path}: {' '.join(defect.tests)})")
                continue
            began_s = time.monotonic()
            found = caught(defect, folder)
            missed += not found
            word = "caught" if found else "MISSED"
            print(f"{word}  {time.monotonic() - began_s:4.0f} s  {defect.name}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
