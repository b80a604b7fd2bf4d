"""GRD110: recurrent layers see one time step, so their recurrent weights get no gradient."""

from __future__ import annotations

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.layers import SingleTimeSteps
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window


@rule(
    "GRD110",
    title="sequences of one time step",
    needs=[Need(facts=(SingleTimeSteps,))],
    explains=("loss_not_decreasing", "overtraining", "stuck_at_chance", "zero_gradient"),
)
def one_time_step(
    window: Window,
    *,
    num_features: int = threshold(
        1, unit="features", source="chosen by hand: more features can hold the past"
    ),
) -> Found | None:
    """Recurrent layers see one time step, so their recurrent weights get no gradient.

    What it detects:
        Keras: recurrent layers whose input has the shape (rows, 1, features), without an initial
        state and without `stateful=True`.

    Why it matters:
        A recurrent layer combines a time step with the state after the steps before. With one time
        step the state is always 0: the recurrent weights have no effect and never train. The layer
        cannot use the order of the data, or their past.

    Fires:
        Warning if the time step has at most `num_features` features, so the model sees a single
        number. Info if it has more: they may be the past, but the layer then works like a dense
        layer.

    Stays quiet:
        For layers that get an initial state, that keep their state from batch to batch, or whose
        input has an unknown number of time steps.

    What to do:
        - Give each row the last time steps: input of the shape (rows, time steps, features), with
          windows such as `x[i : i + 30]` as rows.
        - If the values of a row are a sequence, make them the time steps:
          `x.reshape(len(x), -1, 1)`, not `x.reshape(len(x), 1, -1)`.

    Example:
        x = series[:-1].reshape(-1, 1, 1)                                  # sees one number
        x = np.stack([series[i : i + 30] for i in range(n)])[..., None]    # sees 30

    References:
        https://keras.io/api/layers/recurrent_layers/lstm/
    """
    first = next(window.seen(SingleTimeSteps), None)
    if first is None:
        if not window.total_steps:
            raise NotEnoughData("no step was recorded")
        return None
    few = first.features <= num_features
    names = " and ".join(first.layers[:2])
    more = f" and {len(first.layers) - 2} more" if len(first.layers) > 2 else ""
    sees, begins = ("sees", "begins") if len(first.layers) == 1 else ("see", "begin")
    values = "feature" if first.features == 1 else "features"
    return Found.of(
        first,
        f"{names}{more} {sees} one time step of {first.features} {values} (limit {num_features}), "
        f"and {begins} with a state of 0, so the recurrent weights have no effect",
        severity="warning" if few else "info",
        step=0,
        last_step=window.last_step,
        layers=first.layers,
        evidence={"features": first.features, "limit": num_features},
        fixes=(0, 1) if few else (1, 0),
    )
