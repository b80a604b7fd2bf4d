"""Labels were shuffled without their rows; in the healthy program they were not."""

import xgboost
from boosting import arguments, noisy_classes

options = arguments()
x, y = noisy_classes(options.random)
if not options.healthy:
    options.random.shuffle(y)
model = xgboost.XGBClassifier(n_estimators=60, max_depth=3, learning_rate=0.1, n_jobs=1)
model.fit(x[:1000], y[:1000], eval_set=[(x[1000:], y[1000:])], verbose=20)  # <- here
