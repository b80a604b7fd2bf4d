"""A thousand rounds where some fifty would do: nothing stops them, and all are kept."""

from _common import loans, split, start
from catboost import CatBoostClassifier

o = start()
x, y = loans(o.rng, rows=2000)
xt, yt, xv, yv = split(x, y)
model = CatBoostClassifier(
    iterations=o.rounds * 5,
    learning_rate=0.25,
    depth=6,
    thread_count=1,
    allow_writing_files=False,
    verbose=100,
    early_stopping_rounds=25 if o.healthy else None,
    use_best_model=o.healthy,  # CatBoost's default is True
)
model.fit(xt, yt, eval_set=(xv, yv))
