"""Columns of the evaluation were selected in the order of the alphabet."""

import lightgbm
from _common import loans, split, start

o = start()
x, y = loans(o.rng)
xt, yt, xv, yv = split(x, y)
if not o.healthy:
    xv = xv[sorted(xv.columns)]
train = lightgbm.Dataset(xt.to_numpy(), yt)
valid = lightgbm.Dataset(xv.to_numpy(), yv, reference=train)
params = {"objective": "binary", "num_leaves": 7, "num_threads": 1, "verbose": -1}
params |= {"learning_rate": 0.05}
lightgbm.train(params, train, o.rounds, valid_sets=[train, valid])
