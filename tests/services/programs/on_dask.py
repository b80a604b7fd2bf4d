"""Trains trees on two workers of Dask; prints the digest of the model as a line of JSON.

Both parts hold the same rows: which worker is the first one is a matter of chance.

Usage: on_dask.py xgboost|lightgbm processes|threads
"""

import hashlib
import json
import sys

import dask.array as da
import numpy as np
from dask.distributed import Client, LocalCluster


def by_xgboost(client, x, y):
    from xgboost import dask as trees

    data = trees.DaskDMatrix(client, x, y)
    params = {"objective": "binary:logistic", "nthread": 1, "max_depth": 3}
    made = trees.train(client, params, data, 12, evals=[(data, "train")], verbose_eval=False)
    return bytes(made["booster"].save_raw("json"))


def by_lightgbm(client, x, y):
    import lightgbm

    model = lightgbm.DaskLGBMClassifier(client=client, n_estimators=12, num_leaves=7, verbose=-1)
    text = model.fit(x, y).booster_.model_to_string()
    return text.partition("parameters:")[0].encode()  # these name the ports of the workers


def main(library, kind):
    rng = np.random.default_rng(0)
    part = rng.normal(size=(1000, 6))
    score = part[:, 0] + part[:, 1] * part[:, 2] + 0.3 * rng.normal(size=1000)
    x, y = np.vstack([part, part]), np.tile(score > 0, 2).astype(float)
    cluster = LocalCluster(
        n_workers=2, threads_per_worker=1, processes=kind == "processes", dashboard_address=None
    )
    with cluster, Client(cluster) as client:
        parts = (da.from_array(a, chunks=(1000, *a.shape[1:])) for a in (x, y))
        model = {"xgboost": by_xgboost, "lightgbm": by_lightgbm}[library](client, *parts)
    print(json.dumps({"digest": {"model": hashlib.sha256(model).hexdigest()}}))


if __name__ == "__main__":
    main(*sys.argv[1:])
