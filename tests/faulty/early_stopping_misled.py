"""A score that grows is treated as a loss; the healthy program says that more is better."""

import xgboost
from boosting import arguments, noisy_classes


def accuracy(predicted, table):
    return "accuracy", float(((predicted > 0) == table.get_label()).mean())


options = arguments()
x, y = noisy_classes(options.random)
train = xgboost.DMatrix(x[:1000], y[:1000])
valid = xgboost.DMatrix(x[1000:], y[1000:])
stop = xgboost.callback.EarlyStopping(
    10, metric_name="accuracy", data_name="valid", maximize=True if options.healthy else None
)
xgboost.train(  # <- here
    {"objective": "binary:logistic", "nthread": 1, "max_depth": 3},
    train,
    100,
    evals=[(valid, "valid")],
    custom_metric=accuracy,
    callbacks=[stop],
    verbose_eval=20,
)
