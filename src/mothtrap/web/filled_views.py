"""Views of the page that a run has data for."""

from __future__ import annotations

from mothtrap.core.facts.samples import SamplesTaken
from mothtrap.core.runs import RunKind
from mothtrap.reader.run import Run
from mothtrap.store import layout
from mothtrap.store.output_log import kept_output
from mothtrap.web.histograms import has_histograms
from mothtrap.web.series import scalar_names


def filled_views(run: Run) -> tuple[str, ...]:
    """Return the ids of views with data that may be empty in other runs.

    A running job may still record data of any kind, so all views of a training are returned.
    """
    own = ("probe",) if run.kind in (RunKind.PROBE, RunKind.SERVE) else ()
    if run.kind is RunKind.CHECK:
        own = ("check",)
    if run.state == "running":
        return (*own, "curves", "layers", "tensors", "histograms", "samples", "logs")
    has_tensors = bool(run.tensors())
    attempts = layout.attempts(run.path)
    filled = {
        "curves": has_tensors or bool(scalar_names(run)),
        "layers": has_tensors,
        "tensors": has_tensors,
        "histograms": has_tensors and has_histograms(run),
        "samples": _has_samples(run),
        "logs": any(kept_output(layout.attempt_folder(run.path, number)) for number in attempts),
    }
    return (*own, *(name for name, is_filled in filled.items() if is_filled))


def _has_samples(run: Run) -> bool:
    """Return whether the samples of a step are known, which are stored separately."""
    parts = (part for worker in run.workers for part in run.parts(worker))
    return any(isinstance(seen, SamplesTaken) for part in parts for seen in part.view.samples())
