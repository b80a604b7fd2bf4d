"""Faulty programs that `make test` runs: few, but each of what rules read is reported in one.

A rule reads facts, statistics of a kind of tensor, and scalars, which adapters report. A program
for each of them, and for each field of a fact that no test of an adapter names, shows that the
adapter still does. The conclusions of a rule are tested in `tests/rules`, and by the other
programs with `HARNESS=full`. Programs that were changed, or whose rule was, run too.
"""

from __future__ import annotations

import functools
import inspect
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Set
from pathlib import Path

from mothtrap.core.fact import Fact
from mothtrap.core.rule import Rule

ROOT = Path(__file__).parents[2]


def reads(rule: type[Rule]) -> set[str]:
    """Return the data that a rule reads, in words."""
    found: set[str] = set()
    text = inspect.getsource(sys.modules[rule.__module__])
    for need in rule.needs:
        found |= {f"{statistic} of {kind}" for kind in need.kinds for statistic in need.statistics}
        found |= set(need.scalars)
        for fact in need.facts:
            fields = set(fact.__struct_fields__) - set(Fact.__struct_fields__) - tested_names()
            found.add(fact.__name__)
            found |= {f"{fact.__name__}.{f}" for f in fields if re.search(rf"\.{f}\b", text)}
    return found


@functools.cache
def tested_names() -> Set[str]:
    """Return the names in the tests of adapters, among them the fields of facts."""
    files = (ROOT / "tests" / "adapters").rglob("*.py")
    return {name for file in files for name in re.findall(r"\w+", file.read_text("utf-8"))}


def chosen(read: Mapping[str, Set[str]]) -> list[str]:
    """Return the programs to run, starting with those that provide the most missing data.

    Args:
        read: what the rule of a program reads, by program.
    """
    missing = {thing for things in read.values() for thing in things}
    found = []
    while missing:
        found.append(max(read, key=lambda name: len(missing & read[name])))
        missing -= read[found[-1]]
    return found


def changed(names: Iterable[str], paths: Iterable[str]) -> list[str]:
    """Return the programs that are among the paths, or whose rule is."""
    stems = {Path(path).stem for path in paths if "rules/" in path or "tests/faulty/" in path}
    return [name for name in names if name in stems]


def changed_paths() -> list[str]:
    """Return what the latest commit and the work tree changed; nothing outside of a repository."""
    asked = ("diff", "--name-only", "HEAD~1"), ("ls-files", "--others", "--exclude-standard")
    return [path for words in asked for path in _git(*words)] if shutil.which("git") else []


def _git(*words: str) -> list[str]:
    told = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)
    return told.stdout.splitlines() if told.returncode == 0 else []
