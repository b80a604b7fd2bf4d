"""A join finds no matching key, so two columns have no values; the healthy join finds them."""

import numpy as np
import xgboost
from boosting import arguments, noisy_classes

options = arguments()
x, y = noisy_classes(options.random)
joined = options.random.normal(size=(len(x), 2))
if not options.healthy:
    joined[:] = np.nan
x = np.column_stack([x, joined])
train = xgboost.DMatrix(x[:1000], y[:1000])
valid = xgboost.DMatrix(x[1000:], y[1000:])
params = {"objective": "binary:logistic", "max_depth": 3, "nthread": 1, "eta": 0.1}
xgboost.train(params, train, 40, evals=[(train, "train"), (valid, "valid")])  # <- here
