"""DAT540: recurrent layers keep their state from batch to batch, but the rows are shuffled."""

from __future__ import annotations

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.data import StatesKept
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window


@rule(
    "DAT540",
    title="states of other rows",
    needs=[Need(facts=(StatesKept,))],
    explains=(
        *("loss_not_decreasing", "stuck_at_chance", "constant_output", "overtraining"),
        *("labels_unrelated", "overfit", "learning_rate_too_low"),
    ),
)
def states_of_other_rows(
    window: Window,
    *,
    num_batches: int = threshold(2, unit="batches in a pass", source="chosen by hand"),
) -> Found | None:
    """Recurrent layers keep their state from batch to batch, but the rows are shuffled.

    What it detects:
        A `fit` with `shuffle=True`, the default, of a Keras model whose recurrent layers have
        `stateful=True`.

    Why it matters:
        A stateful layer continues each row with the state of the row at the same place in the batch
        before. After a shuffle this is an unrelated row, so the state is noise to the model, and
        the model cannot use the past.

    Fires:
        Warning when rows are shuffled and a pass has at least `num_batches` batches.

    Stays quiet:
        With `shuffle=False`, for generators and datasets, which set the order themselves, and if a
        callback of the script runs code in each batch, because it may reset the states.

    What to do:
        - Keep the rows in order: `model.fit(..., shuffle=False)`. Row `i` of each batch must
          continue row `i` of the batch before.
        - If each row is a sequence of its own, remove `stateful=True`.

    Example:
        model.add(LSTM(50, stateful=True)); model.fit(x, y, batch_size=25)
        model.add(LSTM(50, stateful=True)); model.fit(x, y, batch_size=25, shuffle=False)

    References:
        https://keras.io/guides/working_with_rnns/#crossbatch-statefulness
    """
    seen = list(window.seen(StatesKept))
    if not seen and not window.total_steps:
        raise NotEnoughData("no step was recorded")
    for one in seen:
        if not one.shuffled or one.batches < num_batches:
            continue
        names = " and ".join(one.layers[:2])
        more = f" and {len(one.layers) - 2} more" if len(one.layers) > 2 else ""
        verb = "keeps its state" if len(one.layers) == 1 else "keep their states"
        return Found.of(
            one,
            f"{names}{more} {verb} from batch to batch (`stateful=True`), but `fit` shuffles the "
            f"rows into {one.batches} batches (limit {num_batches}): each row gets the state of "
            "another row",
            last_step=window.last_step,
            layers=one.layers,
            evidence={"batches": one.batches, "limit": num_batches},
        )
    return None
