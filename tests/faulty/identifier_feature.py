"""The row number is a column, and rows are stored by class; the healthy program drops it."""

import lightgbm
import numpy as np
from boosting import arguments, noisy_classes

options = arguments()
x, y = noisy_classes(options.random)
stored = np.argsort(y + options.random.normal(scale=0.8, size=len(y)))
number = np.empty(len(y))
number[stored] = np.arange(len(y))
if not options.healthy:
    x = np.column_stack([x, number])
train = lightgbm.Dataset(x[:1000], y[:1000])
valid = lightgbm.Dataset(x[1000:], y[1000:], reference=train)
params = {"objective": "binary", "num_leaves": 7, "num_threads": 1, "verbose": -1}
lightgbm.train(params, train, 40, valid_sets=[train, valid])  # <- here
