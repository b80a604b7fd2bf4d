"""Writes and reads a set of tensors with smdebug; run by `bench/store.py` in its own environment.

Run: python smdebug_store.py write|read SET FOLDER; prints one line of JSON.
"""

import json
import logging
import os
import sys
import time

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
logging.disable(logging.CRITICAL)

import sets  # noqa: E402


def write(name, folder):
    """Write as its hooks do: a writer per step, closed before the next one begins."""
    from smdebug.core.access_layer import training_has_ended
    from smdebug.core.collection_manager import CollectionManager
    from smdebug.core.modes import ModeKeys
    from smdebug.core.writer import FileWriter

    chosen = sets.SETS[name]
    collections = CollectionManager()
    collections.add("all")
    tensors = {f"t{i:04d}": value for i, value in enumerate(chosen.tensors())}
    for tensor in tensors:
        collections.get("all").add_tensor_name(tensor)
    collections.set_num_workers(1)
    collections.export(folder, "worker_0_collections.json")
    cpu, wall = time.process_time(), time.perf_counter()
    for step in range(chosen.steps_of("smdebug")):
        writer = FileWriter(trial_dir=folder, step=step, worker="worker_0")
        for tensor, value in tensors.items():
            if chosen.statistics:
                for index, number in enumerate(value):
                    reduction = f"smdebug/reductions/{index}/{tensor}"
                    writer.write_tensor(number, reduction, mode=ModeKeys.TRAIN, mode_step=step)
            else:
                writer.write_tensor(value, tensor, mode=ModeKeys.TRAIN, mode_step=step)
        writer.close()
    steps = chosen.steps_of("smdebug")
    spent = {
        "cpu_s": (time.process_time() - cpu) / steps,
        "wall_s": (time.perf_counter() - wall) / steps,
        "blocked_s": (time.perf_counter() - wall) / steps,
    }
    training_has_ended(folder)
    return spent


def read(name, folder):
    """Open and list, one tensor over all steps, all tensors of one step."""
    from smdebug.core.modes import ModeKeys
    from smdebug.trials import create_trial

    times = {}
    began = time.perf_counter()
    trial = create_trial(folder)
    names = sorted(trial.tensor_names())
    times["open_s"] = time.perf_counter() - began
    assert len(names) == sets.SETS[name].count
    began = time.perf_counter()
    history = [trial.tensor(names[7]).value(s, mode=ModeKeys.TRAIN) for s in trial.steps()]
    times["history_s"] = time.perf_counter() - began
    began = time.perf_counter()
    step = [trial.tensor(n).value(len(history) // 2, mode=ModeKeys.TRAIN) for n in names]
    times["step_s"] = time.perf_counter() - began
    assert all(isinstance(v, np.ndarray) for v in (*history, *step))
    return times


if __name__ == "__main__":
    print(json.dumps({"write": write, "read": read}[sys.argv[1]](*sys.argv[2:])))
