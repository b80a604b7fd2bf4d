/** The detailed views; they are loaded when the first of them is opened. */
import { paint, unpackedCells } from "../charts/cells.js";
import { palette } from "../charts/palette.js";
import { Check } from "./check.js";
import { Compare } from "./compare.js";
import { Curves } from "./curves.js";
import { Histograms } from "./histograms.js";
import { Layers } from "./layers.js";
import { Logs } from "./logs.js";
import { Parallel } from "./parallel.js";
import { Probe } from "./probe.js";
import { Record } from "./record.js";
import { Samples } from "./samples.js";
import { Compared } from "./selected.js";
import { Tensors } from "./tensors.js";

export const DEEP = { layers: Layers, tensors: Tensors, histograms: Histograms, samples: Samples, compare: Compare, record: Record,
  curves: Curves, logs: Logs, selected: Compared, parallel: Parallel, probe: Probe, check: Check };

/** The parts that draw a heatmap: `bench/web.py` measures them. */
export const HEATMAP = { paint, palette, unpackedCells };
