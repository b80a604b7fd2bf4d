"""TRE921: a boosting library ignores a parameter that it does not know."""

from __future__ import annotations

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.trees import BoostingBegan
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.window import Window
from mothtrap.rules._trees import OF_BOOSTED, Boosted, judge_each

ARGUMENTS = {"n_estimators": "num_boost_round", "early_stopping_rounds": "early_stopping_rounds"}
"""Parameters of estimators that `xgboost.train` takes as arguments, with their names there."""
LIBRARIES = {"lightgbm": "LightGBM", "xgboost": "XGBoost"}


@rule(
    "TRE921",
    needs=[Need(facts=(BoostingBegan,)), OF_BOOSTED],
    explains=(
        "boosting_rate_too_low",
        "boosting_rate_too_high",
        "leaf_explosion",
        "overfit",
        "overtraining",
        "stopped_too_late",
        "too_few_passes",
    ),
)
def unknown_parameter(window: Window) -> list[Found]:
    """A boosting library ignores a parameter that it does not know.

    What it detects:
        A parameter of LightGBM or XGBoost whose name is misspelled. Also `n_estimators` and
        `early_stopping_rounds` among the parameters of `xgboost.train`, which takes them as
        arguments.

    Why it matters:
        Both libraries accept any name, and ignore those that they do not know. The model is
        trained with the default value, and a search over the parameter compares equal models.

    Fires:
        Warning when the library does not know a parameter whose name resembles a known one
        (`difflib` similarity of at least 0.8). Warning when `n_estimators` differs from the number
        of rounds, or `early_stopping_rounds` is given and nothing stops early.

    Stays quiet:
        For unknown names that resemble no known name, such as parameters of another library. For
        CatBoost and scikit-learn, which reject unknown names. In a loop of the script that calls
        XGBoost's `update`.

    What to do:
        - Correct the name of the parameter.
        - XGBoost: Pass the number of rounds and the early stopping to `train` itself:
          `xgboost.train(params, data, num_boost_round=500, early_stopping_rounds=20)`.

    Example:
        LGBMClassifier(min_child_sample=400)          # ignored
        LGBMClassifier(min_child_samples=400)

    References:
        https://lightgbm.readthedocs.io/en/stable/Parameters.html;
        https://xgboost.readthedocs.io/en/stable/parameter.html
    """

    def judge(one: Boosted) -> Found | None:
        ignored = one.began.ignored
        if ignored is None:
            raise NotEnoughData("the parameters were not inspected")
        if not ignored:
            return None
        name, meant = next(iter(ignored.items()))
        value = one.began.parameters.get(meant)
        library = LIBRARIES.get(one.began.library, one.began.library)
        words = f"{library} does not know the parameter `{name}`, and ignores it"
        if meant:
            now = f", which is {value}" if value else ""
            words += f"; a similar name that it knows is `{meant}`{now}"
            fix = f"Rename `{name}` to `{meant}`."
        else:
            argument = ARGUMENTS.get(name, name)
            words += f": `train` takes it as its argument `{argument}`"
            fix = f"Pass `{argument}=...` to `train` instead of `{name}` in the parameters."
        if len(ignored) > 1:
            words += f". It ignores {len(ignored) - 1} more"
        return Found.of(
            one.began,
            words,
            evidence={"parameters": ", ".join(ignored), "fit": one.began.fit},
            fixes=(fix,),
        )

    return judge_each(window, judge)
