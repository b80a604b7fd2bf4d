"""A learning rate of 0.0005."""

import xgboost
from _common import houses, split, start

o = start()
x, y = houses(o.rng)
xt, yt, xv, yv = split(x, y)
train, valid = xgboost.DMatrix(xt, yt), xgboost.DMatrix(xv, yv)
params = {"eta": 0.1 if o.healthy else 0.0005, "max_depth": 4, "nthread": 1}
xgboost.train(params, train, o.rounds, evals=[(train, "train"), (valid, "valid")], verbose_eval=40)
