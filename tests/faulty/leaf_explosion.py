"""Trees of depth 14 on noisy rows; the healthy program has small trees."""

import xgboost
from boosting import arguments, noisy_classes

options = arguments()
x, y = noisy_classes(options.random)
train = xgboost.DMatrix(x[:1000], y[:1000])
valid = xgboost.DMatrix(x[1000:], y[1000:])
params = {
    "objective": "binary:logistic",
    "nthread": 1,
    "eta": 0.1,
    "min_child_weight": 0,
    "max_depth": 14,
}
if options.healthy:
    params |= {"max_depth": 3, "min_child_weight": 10}
evals = [(train, "train"), (valid, "valid")]
xgboost.train(params, train, 80, evals=evals, verbose_eval=20)  # <- here
