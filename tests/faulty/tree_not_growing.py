"""A leaf needs more rows than half of the table; the healthy program asks for 20."""

import lightgbm
from boosting import arguments, noisy_classes

options = arguments()
x, y = noisy_classes(options.random)
train = lightgbm.Dataset(x[:1000], y[:1000])
valid = lightgbm.Dataset(x[1000:], y[1000:], reference=train)
params = {
    "objective": "binary",
    "num_leaves": 7,
    "min_data_in_leaf": 20 if options.healthy else 600,
    "num_threads": 1,
    "verbose": -1,
}
lightgbm.train(params, train, 30, valid_sets=[train, valid])  # <- here
