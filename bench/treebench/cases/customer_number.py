"""Customers were numbered by class when two files were joined."""

import numpy as np
from _common import loans, split, start
from catboost import CatBoostClassifier

o = start()
x, y = loans(o.rng)
x["customer"] = 100000 + np.argsort(np.argsort(o.rng.random(len(y)) + 0.7 * y))
if o.healthy:
    x = x.drop(columns=["customer"])
xt, yt, xv, yv = split(x, y)
model = CatBoostClassifier(
    iterations=o.rounds,
    learning_rate=0.1,
    depth=4,
    thread_count=1,
    allow_writing_files=False,
    verbose=40,
)
model.fit(xt, yt, eval_set=(xv, yv))
