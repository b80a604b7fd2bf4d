"""NUM005: the data contain NaN or infinite values."""

from __future__ import annotations

import numpy as np

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.data import InputDistribution, LoaderBegan
from mothtrap.core.facts.data import NonfiniteInput as Seen
from mothtrap.core.facts.nonfinite import FirstBadOperation
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.operation_advice import advice_on
from mothtrap.core.rule import Rule
from mothtrap.core.steps import Mode
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._effects import NOT_FINITE
from mothtrap.rules._operation_advice import operation_at, operation_in_words

ORIGIN = (
    "Find the origin of the NaN in `{name}`: a missing value in the data, or a logarithm or root "
    "of a negative number, or 0 / 0 in the script. `mothtrap replay` names the operation."
)
"""Advice where neither a loader nor samples are known."""


@frozen
class NonfiniteInput(Rule):
    """The data contain NaN or infinite values.

    What it detects:
        NaN or infinity in a tensor that a loader returned or a model was called with. The finding
        names the rows and, if the loader's sampler reported them, the samples. If everything that
        the loader returned for the step was finite, the finding says that the script computed the
        value after loading.

    Why it matters:
        One NaN in one row makes the loss of its batch NaN, then all gradients, and one optimizer
        step later all weights. It comes back in every epoch, each time in another batch.

    Fires:
        Error when the training loss or a gradient is not finite in the step that used the tensor,
        or at most `later_steps` later, for loaders that read ahead. Warning when the loss of an
        evaluation is not finite. Otherwise info: the value never reached a loss.

    Stays quiet:
        Masks: tensors without NaN whose finite values are all equal, such as an attention mask of 0
        and minus infinity. Tensors that a model computed.

    What to do:
        - Inspect the samples named, and repair or drop them where the data are read: empty cells of
          a table, divisions by a standard deviation of 0, log of 0.
        - PyTorch: Fill missing values, and tell the model which ones were missing: `x =
          torch.nan_to_num(x)` and a mask.
        - Keras: Fill or drop rows with missing values before `fit`, until `np.isfinite(x).all()` is
          true.
        - JAX: Fill missing values, and tell the model which ones were missing: `x =
          jnp.nan_to_num(x)` and a mask.
        - Check that all data are finite before training begins.
        - PyTorch: If the loaded data are finite, find the operation between loader and loss that
          turns them into NaN (`torch.sqrt` or `torch.log` of a negative number, 0 / 0), and keep
          its input in range. `mothtrap replay` repeats the step and names the operation.
        - Keras, JAX: If the loaded data are finite, find the operation between the data and the
          loss that turns them into NaN (a square root or logarithm of a negative number, 0 / 0),
          and keep its input in range.

    Example:
        frame = pandas.read_csv("patients.csv")                  # empty cells become NaN
        frame = frame.fillna(frame.median(numeric_only=True))    # filled

    References:
        Breck et al. 2019, Data validation for machine learning,
        https://mlsys.org/Conferences/2019/doc/2019/167.pdf
    """

    code = "NUM005"
    needs = (
        Need(facts=(Seen,)),
        Need(
            facts=(LoaderBegan, InputDistribution, FirstBadOperation),
            scalars=("loss",),
            optional=True,
        ),
        Need(kinds=("gradient",), statistics=("nan",), optional=True),
    )
    explains = (
        *NOT_FINITE,
        "updates_all_skipped",
        "constant_output",
        "dead_units",
        "exploding_gradient",
        "loss_diverging",
        "loss_not_decreasing",
        "loss_spike",
        "stuck_at_chance",
        "unchanged_tensor",
    )

    later_steps: int = threshold(
        1, unit="steps", source="chosen by hand: wrappers of loaders fetch one batch ahead"
    )

    def check(self, window: Window) -> list[Finding]:
        """Check for non-finite data, then whether they reached a loss."""
        found = list(window.seen(Seen))
        looked = any(True for kind in (LoaderBegan, InputDistribution) for _ in window.seen(kind))
        if not found and not looked:
            raise NotEnoughData("no floating-point data were inspected")
        findings = []
        for mode in (Mode.TRAIN, Mode.EVAL):
            own = [fact for fact in found if fact.mode is mode]
            if own:
                findings.append(self._judge(window, mode, own))
        return findings

    def _judge(self, window: Window, mode: Mode, found: list[Seen]) -> Finding:
        broken = _broken_steps(window, mode)
        slack = self.later_steps if mode is Mode.TRAIN else 0
        reaching = [f for f in found if any(0 <= s - f.step <= slack for s in broken)]
        severity = Severity.INFO
        if reaching:
            severity = Severity.ERROR if mode is Mode.TRAIN else Severity.WARNING
        first = min(reaching or found, key=lambda fact: fact.step)
        steps = sorted({fact.step for fact in found if fact.step >= first.step})
        fixes = self.fixes(window)
        if not (first.from_loader or first.samples or first.computed):
            fixes = (ORIGIN.format(name=first.tensor), *fixes)
        made = operation_at(window, first.step) if not first.from_loader else None
        advice = advice_on(made) if made is not None else ""
        cause = f"; {operation_in_words(made)}" if made is not None else ""
        return self.finding(
            window,
            severity=severity,
            step=first.step,
            last_step=steps[-1],
            count=len(steps),
            message=_message(first, reached=bool(reaching)) + _later(first, found) + cause,
            evidence={
                "tensor": first.tensor,
                "source": first.source,
                "nan": first.nan,
                "inf": first.inf,
                "rows": list(first.rows),
                "samples": list(first.samples),
                "computed": first.computed,
            },
            location=(made.location if made is not None else None) or first.location,
            mode=mode.value,
            fixes=(advice,) if advice else fixes[-1:] if first.computed else fixes,
        )


def _broken_steps(window: Window, mode: Mode) -> set[int]:
    """Return the steps with a non-finite loss, or with a NaN gradient where a ReLU hid the NaN."""
    broken = {
        int(step)
        for series in window.scalars("loss", mode)
        for step in series.steps_S[~np.isfinite(series.values_S)]
    }
    nan = window.matrix("gradient", "nan") if mode is Mode.TRAIN else None
    if nan is not None:
        broken |= set(nan.steps_S[~nan.skipped_S & (nan.values_ST > 0).any(axis=1)].tolist())
    return broken


def _message(fact: Seen, *, reached: bool) -> str:
    kinds = [f"{n} {word}" for n, word in ((fact.nan, "NaN"), (fact.inf, "infinite")) if n]
    what = f"tensor {fact.tensor} of a batch of {fact.source}"
    if not fact.from_loader:
        what = f"argument {fact.tensor} of {fact.source}"
    rows = f"in {_some('row', fact.rows, fact.row_count)}"
    samples = f" ({_some('sample', fact.samples, fact.row_count)} of the data)"
    made = "; the loader's data were finite, so the script computed it after loading"
    effect = (made if fact.computed else "") + ("" if reached else "; every loss stayed finite")
    return f"{what} contains {' and '.join(kinds)} {rows}{samples if fact.samples else ''}{effect}"


def _later(first: Seen, found: list[Seen]) -> str:
    """Name the other samples that are not finite: all of them are to be repaired."""
    same = [f for f in found if (f.source, f.tensor) == (first.source, first.tensor)]
    others = sorted({sample for f in same for sample in f.samples} - set(first.samples))
    if not first.samples or not others:
        return ""
    return f"; later also in {_some('sample', tuple(others), len(others))}"


def _some(word: str, numbers: tuple[int, ...], count: int) -> str:
    shown = ", ".join(str(number) for number in numbers[:4])
    more = f" and {count - 4} more" if count > 4 else ""
    return f"{word}{'s' if count > 1 else ''} {shown}{more}"
