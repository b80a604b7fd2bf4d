"""The training rows are evaluated; the healthy program evaluates others."""

import xgboost
from boosting import arguments, noisy_classes

options = arguments()
x, y = noisy_classes(options.random)
model = xgboost.XGBClassifier(n_estimators=60, max_depth=3, learning_rate=0.1, n_jobs=1)
rows = slice(1000, None) if options.healthy else slice(None, 1000)
model.fit(x[:1000], y[:1000], eval_set=[(x[rows], y[rows])], verbose=20)  # <- here
