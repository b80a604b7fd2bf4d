"""BEH606: the model file differs from the file that the training run logged."""

from __future__ import annotations

from collections.abc import Iterator

from mothtrap.behavior.probe import Probe, Suspicion
from mothtrap.behavior.subject import Subject
from mothtrap.core.errors import NotApplicable
from mothtrap.core.findings import Severity
from mothtrap.core.frozen import frozen


@frozen
class ModelChanged(Probe):
    """The model file has changed since the training run logged it.

    What it detects:
        The SHA-256 of the model file, compared with the digest of the file that a training run
        logged at the same path with `mothtrap.log_artifact`.

    Why it matters:
        The training run describes another model: its parameters, data, and scores say nothing about
        this one.

    Fires:
        When no run logged a file with this digest, but a run logged another file at this path.

    Stays quiet:
        Models that no run logged, and functions.

    What to do:
        - Find out what wrote the file, or restore the logged file.
        - Log the file in each run that writes it: `mothtrap.log_artifact("model.ubj")`.
    """

    code = "BEH606"
    severity = Severity.WARNING
    title = "changed model file"

    def look(self, subject: Subject) -> Iterator[Suspicion]:
        """Compare the digests."""
        origin = subject.options.origin
        if origin is None:
            raise NotApplicable("no training run logged the model file")
        if origin.is_same:
            return
        model = next(each for each in subject.options.files if each.role == "model")
        yield Suspicion(
            message=f"{model.path} is not the file that run {origin.run} logged at step "
            f"{origin.step:,}: its SHA-256 begins with {model.digest[:12]}, the logged "
            f"file with {origin.digest[:12]}",
            exact=True,
            evidence={"run": origin.run, "value": model.digest, "reference": origin.digest},
        )
