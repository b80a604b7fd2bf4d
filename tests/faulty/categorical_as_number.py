"""The code of a city is passed as a number; the healthy program declares the column."""

import lightgbm
import numpy as np
from boosting import arguments

options = arguments()
city = options.random.integers(0, 40, size=1500)
price = options.random.normal(size=40)[city]
x = np.column_stack([options.random.normal(size=(1500, 5)), city])
y = price + 0.5 * x[:, 0] + options.random.normal(scale=0.3, size=1500)
declared = {"categorical_feature": [5]} if options.healthy else {}
train = lightgbm.Dataset(x[:1000], y[:1000], **declared)
valid = lightgbm.Dataset(x[1000:], y[1000:], reference=train, **declared)
params = {"objective": "regression", "num_leaves": 7, "num_threads": 1, "verbose": -1}
lightgbm.train(params, train, 40, valid_sets=[train, valid])  # <- here
