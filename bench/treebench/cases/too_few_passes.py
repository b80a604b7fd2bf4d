"""A network that may pass over the rows eight times only."""

import numpy as np
from _common import houses, split, start
from sklearn.neural_network import MLPRegressor
from sklearn.preprocessing import StandardScaler

o = start()
x, y = houses(o.rng, rows=1500)
xt, yt, xv, yv = split(StandardScaler().fit_transform(x), (y - y.mean()) / y.std())
model = MLPRegressor(
    hidden_layer_sizes=(16,), max_iter=500 if o.healthy else 8, random_state=o.seed, tol=1e-3
)
model.fit(xt, yt)
print(np.round(model.score(xv, yv), 3))
