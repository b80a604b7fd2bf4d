"""A learning rate of 1.8."""

import lightgbm
from _common import houses, split, start

o = start()
x, y = houses(o.rng)
xt, yt, xv, yv = split(x, y)
train = lightgbm.Dataset(xt, yt)
valid = lightgbm.Dataset(xv, yv, reference=train)
params = {
    "objective": "regression",
    "learning_rate": 0.1 if o.healthy else 1.8,
    "num_leaves": 15,
    "num_threads": 1,
    "verbose": -1,
}
lightgbm.train(params, train, o.rounds, valid_sets=[train, valid], valid_names=["train", "valid"])
