"""The gradient is label minus prediction; the healthy program returns prediction minus label."""

import lightgbm
import numpy as np
from boosting import arguments

options = arguments()
x = options.random.normal(size=(1500, 6))
y = x[:, 0] + x[:, 1] * x[:, 2] + options.random.normal(scale=0.3, size=1500)


def squared(predicted, table):
    residual = predicted - table.get_label()
    return (residual if options.healthy else -residual), np.ones_like(predicted)


train = lightgbm.Dataset(x[:1000], y[:1000])
valid = lightgbm.Dataset(x[1000:], y[1000:], reference=train)
params = {
    "objective": squared,
    "metric": "l2",
    "num_leaves": 7,
    "num_threads": 1,
    "verbose": -1,
}
lightgbm.train(params, train, 40, valid_sets=[train, valid])  # <- here
