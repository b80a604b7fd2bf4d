"""A learning rate of 2.5; the healthy program uses 0.1."""

import xgboost
from boosting import arguments, noisy_classes

options = arguments()
x, y = noisy_classes(options.random)
train = xgboost.DMatrix(x[:1000], y[:1000])
valid = xgboost.DMatrix(x[1000:], y[1000:])
params = {
    "objective": "binary:logistic",
    "nthread": 1,
    "max_depth": 4,
    "eta": 0.1 if options.healthy else 2.5,
}
evals = [(train, "train"), (valid, "valid")]
xgboost.train(params, train, 60, evals=evals, verbose_eval=20)  # <- here
