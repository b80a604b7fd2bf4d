"""RUN903: memory use keeps growing."""

from __future__ import annotations

import numpy as np

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.memory import EvaluationGraphsKept, LossesKept
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need, any_of
from mothtrap.core.proof import Proof
from mothtrap.core.rule import Rule
from mothtrap.core.steps import Mode
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Series, Window

PROCESS = "process"
QUARTERS = 4
MIB = 2**20


@frozen
class MemoryGrowth(Rule):
    """Memory use keeps growing.

    What it detects:
        Device or process memory that grows step after step, and losses or evaluations that are kept
        together with their graphs.

    Why it matters:
        The memory is never released. The job slows down and finally runs out of memory, often hours
        later and far from the line that keeps the reference.

    Fires:
        When the mean of the last `window` steps exceeds the mean of the `window` steps before by
        more than `increase` percent and `least_mib`, and each quarter is higher than the quarter
        before. The first `patience` steps do not count. Error for device memory, warning for
        process memory. Also a warning when the last `kept_losses` losses, or the graphs of the last
        `kept_evaluations` evaluations, are all still in memory.

    Stays quiet:
        Growth while caches and workspaces fill. A single jump to a new level. Memory that is
        released again. Losses of one epoch that are kept for averaging. The graph of the best
        evaluation.

    What to do:
        - PyTorch: Keep numbers, not tensors: `total += loss.item()`, `losses.append(loss.item())`.
        - PyTorch: Detach tensors that outlive the step: hidden states, running averages, logged
          outputs.
        - PyTorch: Evaluate under `torch.no_grad()`, and keep numbers or tensors from
          `.detach().cpu()`.
        - JAX: Keep numbers, not arrays: `losses.append(float(loss))`.
        - Look for a list, cache or hook that grows: count `gc.get_objects()` by type.

    Example:
        losses.append(loss)           # each holds the graph of its step
        losses.append(loss.item())

    References:
        PyTorch, Frequently Asked Questions: My model reports "cuda runtime error(2): out
        of memory", https://docs.pytorch.org/docs/stable/notes/faq.html
    """

    code = "RUN903"
    needs = (
        *any_of(Need(scalars=("memory_bytes",)), Need(facts=(LossesKept,))),
        Need(facts=(EvaluationGraphsKept,), optional=True),
    )
    proof = Proof(title="Memory (bytes)", scalars=("memory_bytes",), reference=("before",))

    increase: float = threshold(20.0, unit="percent", source="chosen by hand")
    window: int = threshold(200, unit="steps", source="chosen by hand")
    patience: int = threshold(
        100, unit="steps from the start", source="chosen by hand: caches fill at the start"
    )
    least_mib: float = threshold(
        64.0,
        unit="MiB between the two means",
        source="chosen by hand: allocators fluctuate below it",
    )
    kept_losses: int = threshold(
        200, unit="consecutive losses", source="chosen by hand: more than a small epoch has"
    )

    kept_evaluations: int = threshold(
        4,
        unit="consecutive evaluations",
        source="chosen by hand: a few may be kept to compare them",
    )

    def check(self, window: Window) -> list[Finding]:
        """Check for kept losses, then each kind of memory."""
        memories = window.scalars("memory_bytes")
        kept = list(window.seen(LossesKept))
        graphs = list(window.seen(EvaluationGraphsKept))
        if not (kept or graphs) and window.total_steps < self.patience + 2 * self.window:
            raise NotEnoughData(f"needs {self.patience + 2 * self.window} steps")
        found = [self._growth(window, series) for series in memories]
        found += [self._kept(window, kept), self._kept_evaluations(window, graphs)]
        return [finding for finding in found if finding is not None]

    def _kept(self, window: Window, kept: list[LossesKept]) -> Finding | None:
        many = [seen for seen in kept if seen.kept >= self.kept_losses]
        if not many:
            return None
        most = max(many, key=lambda seen: seen.kept)
        words = f"{most.kept}{' or more' if most.more else ''}"
        return self.finding(
            window,
            severity=Severity.WARNING,
            step=max(0, most.step + 1 - most.kept),
            last_step=most.step,
            count=most.kept,
            message=f"the last {words} losses are all still in memory with their graphs",
            evidence={"kept": most.kept, "limit": self.kept_losses},
            location=most.location,
        )

    def _kept_evaluations(
        self, window: Window, graphs: list[EvaluationGraphsKept]
    ) -> Finding | None:
        many = [seen for seen in graphs if seen.evaluations >= self.kept_evaluations]
        if not many:
            return None
        last = many[-1]
        numbers, losses, evaluation, *rest = self.fixes(window)
        return self.finding(
            window,
            severity=Severity.WARNING,
            step=many[0].step,
            last_step=last.step,
            count=last.evaluations,
            mode=Mode.EVAL.value,
            message=(
                f"the last {last.evaluations} evaluations are all still in memory with their "
                f"graphs ({last.forwards} forward passes): losses or predictions are kept as "
                "tensors"
            ),
            evidence={
                "evaluations": last.evaluations,
                "forwards": last.forwards,
                "limit": self.kept_evaluations,
            },
            fixes=(evaluation, numbers, losses, *rest),
            location=last.location,
        )

    def _growth(self, window: Window, series: Series) -> Finding | None:
        late_S = series.steps_S >= self.patience
        steps_S, bytes_S = series.steps_S[late_S], series.values_S[late_S]
        begin = window.last_step - 2 * self.window
        if not len(steps_S) or steps_S[0] > begin + self.window // QUARTERS:
            return None
        recent_S = steps_S > begin
        steps_S, bytes_S = steps_S[recent_S], bytes_S[recent_S]
        parts = [part for part in np.array_split(bytes_S, QUARTERS) if len(part)]
        if len(parts) < QUARTERS:
            return None
        # The lowest of each quarter: memory that is released now and then falls back to it.
        lows = [float(part.min()) for part in parts]
        earlier = float(np.mean(np.concatenate(parts[: QUARTERS // 2])))
        later = float(np.mean(np.concatenate(parts[QUARTERS // 2 :])))
        rises = bool((np.diff(lows) > 0).all())
        if not rises or later < earlier * (1 + self.increase / 100):
            return None
        if later - earlier < self.least_mib * MIB:
            return None
        return self.finding(
            window,
            severity=Severity.WARNING if series.of == PROCESS else Severity.ERROR,
            step=int(steps_S[0]),
            last_step=int(steps_S[-1]),
            count=len(steps_S),
            message=(
                f"{series.of} memory rose from {earlier / MIB:,.0f} to {later / MIB:,.0f} MiB "
                f"(means over {self.window} steps) and keeps rising"
            ),
            evidence={
                "value": later,
                "before": earlier,
                "limit_percent": self.increase,
                "memory": series.of,
            },
        )
