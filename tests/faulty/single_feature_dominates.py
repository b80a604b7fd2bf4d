"""A column of a table of patients is computed from the label; the healthy program drops it."""

import xgboost
from boosting import arguments, noisy_classes

options = arguments()
x, y = noisy_classes(options.random)
if not options.healthy:
    x[:, 7] = y + 0.05 * options.random.normal(size=len(y))  # days until the treatment
train = xgboost.DMatrix(x[:1000], y[:1000])
valid = xgboost.DMatrix(x[1000:], y[1000:])
params = {
    "objective": "binary:logistic",
    "nthread": 1,
    "eval_metric": "auc",
    "max_depth": 3,
    "eta": 0.1,
}
xgboost.train(params, train, 40, evals=[(train, "train"), (valid, "valid")])  # <- here
