"""Four of a hundred are frauds; the accuracy is watched, and all rows weigh the same."""

from _common import loans, split, start
from catboost import CatBoostClassifier

o = start()
x, y = loans(o.rng, rows=4000, rate=0.04)
xt, yt, xv, yv = split(x, y)
told = {"auto_class_weights": "Balanced", "eval_metric": "AUC"} if o.healthy else {}
model = CatBoostClassifier(
    iterations=o.rounds,
    learning_rate=0.05,
    depth=4,
    thread_count=1,
    allow_writing_files=False,
    verbose=40,
    **({"eval_metric": "Accuracy"} | told),
)
model.fit(xt, yt, eval_set=(xv, yv))
