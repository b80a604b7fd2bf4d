"""A network gets eight passes over its rows; the healthy program gets as many as it needs."""

from boosting import arguments, noisy_classes
from sklearn.neural_network import MLPClassifier

options = arguments()
x, y = noisy_classes(options.random)
passes = 400 if options.healthy else 8
model = MLPClassifier((16,), max_iter=passes, random_state=options.seed, tol=2e-3, batch_size=100)
model.fit(x, y)  # <- here
