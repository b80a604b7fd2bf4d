"""A misspelled parameter is ignored, so leaves of 20 rows memorize the noise."""

import lightgbm
from boosting import arguments, noisy_classes

options = arguments()
x, y = noisy_classes(options.random)
name = "min_child_samples" if options.healthy else "min_child_sample"
model = lightgbm.LGBMClassifier(n_estimators=20, n_jobs=1, verbose=-1, **{name: 200})
model.fit(x[:1000], y[:1000], eval_set=[(x[1000:], y[1000:])])  # <- here
