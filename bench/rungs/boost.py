"""Boosted trees on a noisy table, with an evaluation of other rows."""

import numpy as np
import xgboost
from _start import options, score

o = options(rate=0.2, child=1)
random = np.random.default_rng(3)
x = random.normal(size=(1500, 8))
clean = x[:, 0] + x[:, 1] * x[:, 2] > 0
y = (clean ^ (random.random(1500) < 0.1)).astype(int)
train, valid = xgboost.DMatrix(x[:1000], y[:1000]), xgboost.DMatrix(x[1000:], y[1000:])
settings = {"objective": "binary:logistic", "max_depth": 3, "nthread": 1, "seed": o.seed}
settings |= {"subsample": 0.8, "eta": o.rate, "min_child_weight": o.child}
result = {}
xgboost.train(
    settings, train, 60, evals=[(valid, "valid")], evals_result=result, verbose_eval=False
)
score(result["valid"]["logloss"][-1])
