"""The last word on a run, when it has ended."""

from __future__ import annotations

import sys
from pathlib import Path

from mothtrap.capture.containment import say_on_stderr
from mothtrap.core.config import Config
from mothtrap.monitor.catalogue import explains, load_rules
from mothtrap.reader.run import open_run
from mothtrap.report.style import Style
from mothtrap.report.summary import summarize
from mothtrap.report.text import verdict
from mothtrap.store.remote import place_of, read_remote


def say_verdict(path: Path, config: Config) -> None:
    """Print the verdict of a run on stderr; whatever goes wrong here, the job is done."""
    try:
        run = open_run(path)
        text = verdict(summarize(run, explains(load_rules(config))), Style.of(sys.stderr))
        say_on_stderr(f"\nmothtrap: {text}\n  more: mothtrap show {_shown(path, config)}")
    except Exception as err:
        say_on_stderr(f"mothtrap: cannot sum up {path} ({type(err).__name__}: {err})")


def _shown(path: Path, config: Config) -> str:
    if read_remote(path) is not None:
        return place_of(path)
    default = path.parent.resolve() == Path(config.runs_dir).resolve()
    return path.name if default else str(path)
