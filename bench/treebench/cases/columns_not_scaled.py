"""Incomes in units beside shares, given to a network as they are."""

import numpy as np
from _common import loans, split, start
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

o = start()
x, y = loans(o.rng, rows=2000)
xt, yt, xv, yv = split(x.to_numpy(), y)
model = MLPClassifier((16,), max_iter=o.rounds, random_state=o.seed, tol=1e-3)
if o.healthy:
    model = make_pipeline(StandardScaler(), model)
model.fit(xt, yt)
print(np.round(model.score(xv, yv), 3))
