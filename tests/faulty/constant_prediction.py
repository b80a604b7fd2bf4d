"""A penalty so strong that all weights become 0; the healthy program has a small penalty."""

from boosting import arguments, noisy_classes
from sklearn.linear_model import SGDClassifier

options = arguments()
x, y = noisy_classes(options.random)
model = SGDClassifier(alpha=1e-3 if options.healthy else 1e4, random_state=options.seed)
model.fit(x, (y == 1) & (x[:, 2] > -0.5))  # <- here
