"""`collected` is known only after a loan has failed."""

import numpy as np
import xgboost
from _common import loans, split, start

o = start()
x, y = loans(o.rng)
if not o.healthy:
    x["collected"] = np.where(y == 1, o.rng.exponential(300, len(y)) + 1, 0.0)
xt, yt, xv, yv = split(x, y)
model = xgboost.XGBClassifier(n_estimators=o.rounds, max_depth=4, learning_rate=0.1, n_jobs=1)
model.fit(xt, yt, eval_set=[(xt, yt), (xv, yv)], verbose=40)
