"""What was paid after the loan failed is a column of a linear model."""

import numpy as np
from _common import loans, split, start
from sklearn.linear_model import SGDClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

o = start()
x, y = loans(o.rng)
if not o.healthy:
    x["collected"] = np.where(y == 1, o.rng.exponential(300, len(y)) + 1, 0.0)
xt, yt, xv, yv = split(x, y)
model = make_pipeline(StandardScaler(), SGDClassifier(random_state=o.seed))
model.fit(xt, yt)
print(np.round(model.score(xv, yv), 3))
