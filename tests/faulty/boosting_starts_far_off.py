"""A custom objective on labels of about 300 begins with 0; the twin begins with their mean."""

import numpy as np
import xgboost
from boosting import arguments

options = arguments()
x = options.random.normal(size=(1500, 6))
y = 300 + 10 * x[:, 0] + 5 * x[:, 1] * x[:, 2] + options.random.normal(scale=3, size=1500)


def squared(predicted, table):
    return predicted - table.get_label(), np.ones_like(predicted)


train = xgboost.DMatrix(x[:1000], y[:1000])
valid = xgboost.DMatrix(x[1000:], y[1000:])
settings = {"eta": 0.05, "max_depth": 3, "nthread": 1, "eval_metric": "rmse"}
if options.healthy:
    settings["base_score"] = float(y[:1000].mean())
evals = [(valid, "valid")]
xgboost.train(settings, train, 60, evals, obj=squared, verbose_eval=30)  # <- here
