"""Two classes are trained as numbers; the healthy program trains them as classes."""

import lightgbm
from boosting import arguments, noisy_classes

options = arguments()
x, y = noisy_classes(options.random)
kind = lightgbm.LGBMClassifier if options.healthy else lightgbm.LGBMRegressor
model = kind(n_estimators=40, num_leaves=7, n_jobs=1, verbose=-1)
model.fit(x[:1000], y[:1000], eval_X=x[1000:], eval_y=y[1000:])  # <- here
