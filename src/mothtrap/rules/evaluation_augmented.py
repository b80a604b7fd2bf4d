"""DAT547: the rows of an evaluation change at random from evaluation to evaluation."""

from __future__ import annotations

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.data import RowsRedrawn, RowsRescaled
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.steps import Mode
from mothtrap.core.window import Window


@rule(
    "DAT547",
    title="evaluation data are augmented at random",
    needs=[Need(facts=(RowsRedrawn,)), Need(facts=(RowsRescaled,), optional=True)],
)
def evaluation_augmented(window: Window) -> Found | None:
    """The rows of an evaluation change at random from evaluation to evaluation.

    What it detects:
        Samples of an evaluation loader that have the same labels in each evaluation, but other
        values, as after random flips, crops, noise, or dropped words.

    Why it matters:
        The metrics are those of augmented rows, which are harder than real ones. They also change
        from epoch to epoch although the model does not, so the choice of the best epoch is partly
        a matter of luck.

    Fires:
        Warning when at least a quarter of the compared samples, and of at least eight, change from
        one evaluation to the next, twice in a row, while all labels stay the same.

    Stays quiet:
        If labels change, too, as for masked words or for data that are made up anew. For targets
        of the size of the inputs, as of a denoiser. For several passes in one evaluation, which
        average over augmentations. For loaders that are trained on, and loaders without indices.
        For stored data that change in place, which is another fault.

    What to do:
        - Give the evaluation data a transform without random parts: build a second dataset with
          `transform=plain` instead of splitting one augmented dataset.

    Example:
        train, valid = random_split(ImageFolder(path, transform=augment), sizes)
        train = Subset(ImageFolder(path, transform=augment), train_rows)
        valid = Subset(ImageFolder(path, transform=plain), valid_rows)

    References:
        https://docs.pytorch.org/tutorials/beginner/transfer_learning_tutorial.html
    """
    found = list(window.seen(RowsRedrawn))
    if not found:
        raise NotEnoughData("no evaluation loader drew the same samples in three epochs")
    in_place = {one.loader for one in window.seen(RowsRescaled)}
    first = next((one for one in found if one.loader not in in_place), None)
    if first is None:
        return None
    return Found.of(
        first,
        f"the rows of {first.loader} change from evaluation to evaluation: {first.changed} of "
        f"{first.samples} compared samples have other values in tensor {first.tensor} than in the "
        "evaluation before, and the same labels",
        step=first.first_step,
        last_step=first.step,
        evidence={
            "changed": first.changed,
            "samples": first.samples,
            "evaluations": first.passes,
        },
        mode=Mode.EVAL.value,
    )
