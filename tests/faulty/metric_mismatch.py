"""Classes are evaluated with a squared error; the healthy program uses the logloss."""

import xgboost
from boosting import arguments, noisy_classes

options = arguments()
x, y = noisy_classes(options.random)
model = xgboost.XGBClassifier(
    n_estimators=60,
    max_depth=3,
    learning_rate=0.1,
    n_jobs=1,
    eval_metric="logloss" if options.healthy else "rmse",
)
model.fit(x[:1000], y[:1000], eval_set=[(x[1000:], y[1000:])], verbose=20)  # <- here
