"""A column is computed from the label; the healthy program drops it."""

import numpy as np
from boosting import arguments, noisy_classes
from sklearn.linear_model import SGDClassifier

options = arguments()
x, y = noisy_classes(options.random)
if not options.healthy:
    x = np.column_stack([x, 3 * y + options.random.normal(scale=0.1, size=len(y))])
model = SGDClassifier(random_state=options.seed)
model.fit(x, y)  # <- here
