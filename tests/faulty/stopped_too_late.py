"""Boosting continues for 400 rounds where 60 are best; the healthy program stops early."""

import xgboost
from boosting import arguments, noisy_classes

options = arguments()
x, y = noisy_classes(options.random)
model = xgboost.XGBClassifier(
    n_jobs=1,
    n_estimators=400,
    max_depth=4,
    learning_rate=0.2,
    early_stopping_rounds=30 if options.healthy else None,
)
held_out = x[1000:], y[1000:]
model.fit(x[:1000], y[:1000], eval_set=[held_out], verbose=50)  # <- here
