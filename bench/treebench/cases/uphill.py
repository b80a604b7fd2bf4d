"""The gradient of an objective of one's own points uphill."""

import numpy as np
import xgboost
from _common import houses, split, start

o = start()
x, y = houses(o.rng)
y = y / y.std()
xt, yt, xv, yv = split(x, y)


def huber(predicted, table):
    far = predicted - table.get_label()
    gradient = far / np.sqrt(1 + far**2)
    return (gradient if o.healthy else -gradient), (1 + far**2) ** -1.5


train, valid = xgboost.DMatrix(xt, yt), xgboost.DMatrix(xv, yv)
params = {"max_depth": 3, "eta": 0.1, "nthread": 1, "eval_metric": "mae"}
evals = [(train, "train"), (valid, "valid")]
xgboost.train(params, train, o.rounds, evals=evals, obj=huber, verbose_eval=20)
