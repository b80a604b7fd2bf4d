"""The last of the evals stops the training: the rows that it is fitted to."""

import xgboost
from _common import loans, split, start

o = start()
x, y = loans(o.rng)
xt, yt, xv, yv = split(x, y)
train, valid = xgboost.DMatrix(xt, yt), xgboost.DMatrix(xv, yv)
evals = [(train, "train"), (valid, "valid")]
params = {"objective": "binary:logistic", "max_depth": 5, "eta": 0.2, "nthread": 1}
xgboost.train(
    params,
    train,
    o.rounds,
    evals=evals if o.healthy else evals[::-1],
    early_stopping_rounds=15,
    verbose_eval=40,
)
