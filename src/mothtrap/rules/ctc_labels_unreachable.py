"""LOS431: a CTC loss gets labels that its model cannot output."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable
from mothtrap.core.facts.targets import CtcLabels
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._effects import UNLEARNED


@rule(
    "LOS431",
    title="unreachable labels in a CTC loss",
    needs=[Need(facts=(CtcLabels,))],
    explains=(
        *UNLEARNED,
        *("metric_contradicts_loss", "zero_gradient", "overtraining", "labels_of_one_class"),
    ),
)
def ctc_labels_unreachable(
    window: Window,
    *,
    short: float = threshold(
        0.1, unit="of the rows", source="chosen by hand: a few short recordings are common"
    ),
    most: float = threshold(0.9, unit="of the rows", source="chosen by hand"),
) -> Found | None:
    """A CTC loss gets labels that its model cannot output.

    What it detects:
        Labels of `ctc_loss` that are its blank, and rows with fewer frames than labels whose
        infinite losses `zero_infinity` sets to 0.

    Why it matters:
        The blank separates labels and is removed from the output. So a label that has the number of
        the blank can never be output, and it disturbs the alignment of the others. A row needs a
        frame for each label, and one more between equal labels. Otherwise its loss is infinite, and
        with `zero_infinity` it trains nothing.

    Fires:
        Warning when a label of the sampled backward passes is the blank. Warning when at least
        `short` of the rows have too few frames, and error from `most`, with `zero_infinity`.

    Stays quiet:
        For padding after the target lengths. Without `zero_infinity`, where short rows lead to an
        infinite loss, which other rules report.

    What to do:
        - Number the labels from 1, because 0 is the blank, and give the model one class more. Or
          pass the number of the blank: `ctc_loss(..., blank=classes - 1)`.
        - Pass the true lengths as `target_lengths`, so that the padding does not count.
        - Reduce the time axis less, with smaller strides or pooling, so that each row has more
          frames than labels.

    Example:
        targets = [alphabet.index(letter) for letter in word]
        targets = [alphabet.index(letter) + 1 for letter in word]

    References:
        Graves, Fernandez, Gomez, Schmidhuber 2006, Connectionist temporal classification, section
        3.1, https://doi.org/10.1145/1143844.1143891
    """
    every = list(window.seen(CtcLabels, steps=1))
    if not every:
        raise NotApplicable("no CTC loss was recorded")
    for one in every:
        if one.blanks:
            padded = one.padding == one.blanks
            return Found.of(
                one,
                f"{one.blanks} of {one.labels} labels are {one.blank}, the number of the blank, "
                + ("all of them at the ends of rows" if padded else "which is never output"),
                step=0,
                count=one.looks,
                evidence={"value": one.blanks / one.labels, "limit": 0, "blank": one.blank},
                fixes=(1,) if padded else (0,),
            )
        share = one.short / one.rows
        if one.zeroed and share >= short:
            return Found.of(
                one,
                f"{one.short} of {one.rows} rows have fewer frames than their labels need (such as "
                f"{one.frames} for {one.needed}): their loss is infinite, and `zero_infinity` sets "
                "it to 0, so they train nothing",
                severity="error" if share >= most else "warning",
                step=0,
                count=one.looks,
                evidence={"value": share, "limit": short, "frames": one.frames or 0},
                fixes=(2,),
            )
    return None
