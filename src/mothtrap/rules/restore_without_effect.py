"""RUN909: weights are restored from a state that was never copied."""

from __future__ import annotations

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.workers import RestoredNothing
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.window import Window


@frozen
class RestoreWithoutEffect(Rule):
    """Weights are restored from a state that was never copied.

    What it detects:
        A call to `load_state_dict` with a state that `state_dict` returned some steps earlier and
        that still contains the model's own tensors.

    Why it matters:
        `state_dict` returns the weights of the model, not a copy. Training changes them in place,
        so the saved state always equals the current weights. Loading it changes nothing: the model
        ends with its last weights, not its best weights.

    Fires:
        Warning at each model for which this happens.

    Stays quiet:
        For states that were copied, or written to a file and read. For a state that is loaded
        before another step is taken.

    What to do:
        - Copy the state when you save it: `best = copy.deepcopy(model.state_dict())`.
        - Or save it to a file: `torch.save(model.state_dict(), path)`.

    Example:
        best = model.state_dict()                     # changes with the model
        best = copy.deepcopy(model.state_dict())

    References:
        https://docs.pytorch.org/tutorials/beginner/saving_loading_models.html
    """

    code = "RUN909"
    needs = (Need(facts=(RestoredNothing,), each_step=True),)

    def check(self, window: Window) -> list[Finding]:
        """Check every state that was loaded into the model it came from."""
        if not window.total_steps:
            raise NotEnoughData("no step was recorded")
        seen: dict[str, list[RestoredNothing]] = {}
        for one in window.seen(RestoredNothing):
            seen.setdefault(one.module, []).append(one)
        return [self._finding(window, every) for every in seen.values()][:1]

    def _finding(self, window: Window, every: list[RestoredNothing]) -> Finding:
        last = every[-1]
        return self.finding(
            window,
            severity=Severity.WARNING,
            step=every[0].step,
            last_step=last.step,
            count=len(every),
            message=(
                f"the state of {last.module} saved after {last.kept_step} steps was loaded after "
                f"{last.step} steps, but it still refers to the model's own tensors: nothing is "
                "restored, and the model keeps the weights of the last step"
            ),
            evidence={"kept_step": last.kept_step, "loaded_step": last.step},
            location=last.taken_at or last.location,
        )
