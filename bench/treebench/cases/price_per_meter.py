"""The price per square meter is a column of a table of prices."""

import lightgbm
import numpy as np
from _common import houses, split, start

o = start()
x, y = houses(o.rng)
if not o.healthy:
    x = np.column_stack([x, y + o.rng.normal(scale=2.0, size=len(y))])
xt, yt, xv, yv = split(x, y)
train = lightgbm.Dataset(xt, yt)
valid = lightgbm.Dataset(xv, yv, reference=train)
params = {"objective": "regression", "metric": "rmse", "num_leaves": 15, "num_threads": 1}
lightgbm.train(params | {"verbose": -1}, train, o.rounds, valid_sets=[train, valid])
