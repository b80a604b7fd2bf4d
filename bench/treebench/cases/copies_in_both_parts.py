"""Rows were drawn again to make more of them before the split."""

import numpy as np
from _common import houses, split, start
from catboost import CatBoostRegressor

o = start()
x, y = houses(o.rng, rows=1500)
if o.healthy:
    xt, yt, xv, yv = split(x, y)
else:
    drawn = o.rng.integers(0, len(y), 3000)
    xt, yt, xv, yv = split(x[drawn], y[drawn])
model = CatBoostRegressor(
    iterations=o.rounds,
    learning_rate=0.1,
    depth=5,
    thread_count=1,
    allow_writing_files=False,
    verbose=40,
)
model.fit(np.asarray(xt), yt, eval_set=(xv, yv))
