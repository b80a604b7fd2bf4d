"""Missing values are coded as -999; the healthy program declares them."""

import xgboost
from boosting import arguments, noisy_classes

options = arguments()
x, y = noisy_classes(options.random)
x[options.random.random(len(x)) < 0.1, 2] = -999
told = {"missing": -999.0} if options.healthy else {}
train = xgboost.DMatrix(x[:1000], y[:1000], **told)
valid = xgboost.DMatrix(x[1000:], y[1000:], **told)
params = {"objective": "binary:logistic", "max_depth": 3, "nthread": 1, "eta": 0.1}
xgboost.train(params, train, 40, evals=[(train, "train"), (valid, "valid")])  # <- here
