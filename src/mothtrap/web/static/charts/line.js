/** A chart of curves: the band from minimum to maximum of each bucket, a line through the last
 * values, a separate lane for values that are not finite, and marks at findings. uPlot draws the axes, the
 * cursor and the zoom; the curves are drawn here. */
import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { unitOf } from "../data.js";
import { number, shortCurve, ticks } from "../format.js";
import { html } from "../html.js";
import { heads, Scroll } from "../parts/basics.js";
import { spoken } from "../state.js";
import { color, onColors, seriesColor } from "./colors.js";
import { Drawing } from "./drawing.js";
import { nearest, splits, xRange, yRange } from "./scale.js";

const DISTRIBUTIONS = { linear: 1, log: 3, symlog: 4 };
/** Distances of ticks on axes of whole numbers: 1, 2, 5, 10 ... */
const WHOLE = Array.from({ length: 39 }, (_, place) => [1, 2, 5][place % 3] * 10 ** Math.floor(place / 3));
const UNITS = { time: "seconds" };
/** Axes with fractional values. */
const FINE = ["time", "epoch"];

/** @param {{curves: import("../source.js").Curve[], title: string, axis?: string, scale?: string,
 *   robust?: boolean, smooth?: number, height?: number, marks?: {step: number, until?: number,
 *   severity: string, label: string}[], at?: number | null, limit?: number | null, onAt?: (step: number) => void,
 *   onZoom?: (from: number, to: number) => void, colors?: string[], legend?: boolean,
 *   xs?: [number, number], gaps?: [number, number][], near?: boolean, saves?: any, lines?: {label: string, value: number | null,
 *   of: string, times: number}[]}} props `xs`: the ends of x; `gaps`: steps that were not watched,
 *   where lines break; `near`: show the names of the curves at the pointer; `saves`: the
 *   component with buttons that save it; `lines`: reference lines, at a value or at a multiple of a curve */
export function LineChart(props) {
  const { curves, title, height = 260, marks = [], legend = true } = props;
  const unit = unitOf();
  const axis = (props.axis ?? "step") === "step" ? unit : props.axis;
  const room = useRef(null);
  const chart = useRef(null);
  const colors = props.colors ?? curves.map((_, place) => seriesColor(place));
  const latest = useRef(null);
  latest.current = { ...props, colors, marks, names: Boolean(props.near) };
  const [at, setAt] = useState(null);
  const [table, setTable] = useState(false);
  const [near, setNear] = useState([]);
  const [, render] = useState(0);
  latest.current.near = near[0] ?? -1;

  const move = (step, aloud) => {
    setAt(step);
    latest.current.onAt?.(step);
    if (aloud) spoken.value = atStep(curves, step).map((each) =>
      `${shortCurve(each.name)} at ${unit} ${number(each.step)}: ${each.text}`).join("; ");
  };

  useEffect(() => {
    const drawing = new Drawing(() => latest.current);
    const plot = new uPlot(options(room.current, height, axis, latest, drawing, move, setNear), dataOf(props),
      room.current);
    chart.current = plot;
    const watched = new ResizeObserver(() => {
      const width = room.current?.clientWidth ?? 0;
      if (width && width !== plot.width) plot.setSize({ width, height });
    });
    watched.observe(room.current);
    const quiet = onColors(() => {
      render((before) => before + 1);
      requestAnimationFrame(() => chart.current?.redraw(false, true));
    });
    return () => {
      quiet();
      chart.current = null;
      watched.disconnect();
      plot.destroy();
    };
  }, [props.scale, axis, height]);

  useEffect(() => { chart.current?.setData(dataOf(props)); },
    [curves, marks, props.robust, props.smooth, props.colors, props.limit, props.gaps, props.lines, String(props.xs)]);
  useEffect(() => { chart.current?.redraw(false, false); }, [props.at, near[0]]);

  const keys = (event) => {
    const steps = Array.from(curves[0]?.step ?? []);
    if (!steps.length || event.ctrlKey || event.metaKey || event.altKey) return;
    const here = nearest(steps, props.at ?? at ?? steps[steps.length - 1]);
    const far = event.shiftKey ? 10 : 1;
    const moves = { ArrowLeft: here - far, ArrowRight: here + far, Home: -1, End: steps.length - 1 };
    if (event.key === "t") setTable(!table);
    else if (event.key === "Home") move(firstBad(curves, marks) ?? steps[0], true);
    else if (event.key in moves) {
      move(steps[Math.min(Math.max(moves[event.key], 0), steps.length - 1)], true);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };

  const shown = atStep(curves, props.at ?? at);
  return html`<figure class="chart">
    <div ref=${room} class="canvas" role="img" tabindex="0" aria-label=${sentence(title, curves, marks)}
      onKeyDown=${keys} data-buckets=${curves[0]?.count ?? 0}></div>
    ${props.near && html`<p class="near" aria-hidden="true">${near.length ? near.map((place) => curves[place]
      && html`<span key=${place}><i style=${{ background: colors[place] }}></i>${shortCurve(curves[place].name)}
        ${shown[place] && html` <b>${shown[place].text}</b>`}</span>`) : "Hover to see which run a curve belongs to."}</p>`}
    ${legend && html`<ul class="legend">${curves.map((curve, place) => html`
      <li key=${curve.name}><i style=${{ background: colors[place] }}></i>
        <span title=${curve.name}>${shortCurve(curve.name)}</span>
        ${shown[place] && html` <b>${shown[place].text}</b>`}</li>`)}
      ${(props.at ?? at) !== null && html`<li class="muted">${unit} ${number(shown[0]?.step ?? 0)}</li>`}
      ${(props.lines ?? []).map((line) => html`<li key=${line.label}><i class="reference"></i>${line.label}</li>`)}
      ${curves.some((curve) => curve.bad.some(Boolean)) && html`
        <li><i class="bad"></i>not finite</li>`}
      <li><button class="plain" aria-expanded=${table} onClick=${() => setTable(!table)}>
        Table</button></li>
      ${props.saves && html`<${props.saves} plot=${() => chart.current} wanted=${() => latest.current} />`}</ul>`}
    ${curves.map((curve) => curve.note && html`<p class="muted" key=${curve.name}>${curve.note}</p>`)}
    ${table && html`<${ChartTable} curves=${curves} />`}
  </figure>`;
}

/** The first and last rows of the drawn values, as a table. */
function ChartTable({ curves }) {
  const steps = Array.from(curves[0]?.step ?? []);
  const every = Math.max(1, Math.ceil(steps.length / 100));
  const rows = steps.filter((_, place) => place % every === 0);
  return html`<${Scroll} label="Values of the chart"><table>
    <thead><tr>${heads(["step", ...curves.map((curve) => shortCurve(curve.name))])}</tr></thead>
    <tbody>${rows.map((step) => html`<tr key=${step}><th scope="row">${number(step)}</th>
      ${atStep(curves, step).map((each) => html`<td>${each.text}</td>`)}</tr>`)}</tbody>
  </table></${Scroll}>`;
}

/** Number of curves nearest to the pointer whose names are shown. */
const NEAR = 5;

/** The curves nearest to a point of the chart, the nearest first. */
function nearestCurves(plot, curves, y) {
  const x = plot.posToVal(plot.cursor.left, "x");
  return curves.map((curve, place) => {
    const at = nearest(curve.x, x);
    const value = at < 0 ? NaN : curve.last[at];
    const inside = at >= 0 && x >= curve.x[0] - curve.width && x <= curve.x[curve.count - 1] + curve.width;
    return { place, away: inside ? Math.abs(plot.valToPos(value, "y") - y) : NaN };
  }).filter((each) => Number.isFinite(each.away)).sort((one, other) => one.away - other.away)
    .slice(0, NEAR).map((each) => each.place);
}

function options(room, height, axis, latest, drawing, move, setNear) {
  const scale = latest.current.scale ?? "linear";
  const side = { stroke: () => color("--muted"), grid: { stroke: () => color("--grid"), width: 1 },
    ticks: { show: false }, font: "12px system-ui, sans-serif" };
  return {
    width: room.clientWidth || 600, height, legend: { show: false }, padding: [18, 34, 0, 0],
    scales: {
      x: { time: false, range: () => xsOf(latest.current) },
      y: { distr: DISTRIBUTIONS[scale], asinh: 1e-3,
        range: () => yRange(latest.current.curves, scale, latest.current.robust,
          (latest.current.lines ?? []).map((line) => line.value).filter((each) => each !== null)) },
    },
    series: [{}, { points: { show: false }, stroke: "transparent" }],
    axes: [
      { ...side, size: 34, label: UNITS[axis] ?? axis, labelSize: 16, labelFont: "12px system-ui, sans-serif",
        values: (_, at) => ticks(at),
        ...(FINE.includes(axis) ? {} : { incrs: WHOLE }) },
      { ...side, size: 62, values: (_, at) => ticks(at),
        ...(scale === "linear" ? {} : { splits: (_, __, low, high) => splits(scale, low, high), filter: (_, found) => found }) },
    ],
    cursor: { y: false, points: { show: false }, drag: { x: true, y: false, setScale: false } },
    hooks: {
      draw: [(plot) => drawing.draw(plot)],
      setCursor: [(plot) => {
        if (plot.cursor.idx === null || plot.cursor.left < 0) {
          if (latest.current.near >= 0) setNear([]);
          return;
        }
        if (latest.current.names) {
          setNear(nearestCurves(plot, latest.current.curves, plot.cursor.top));
        }
        const curve = latest.current.curves.find((each) => each.count);
        if (curve) move(curve.step[nearest(curve.x, plot.posToVal(plot.cursor.left, "x"))], false);
      }],
      setSelect: [(plot) => {
        const { left, width } = plot.select;
        const curve = latest.current.curves.find((each) => each.count);
        if (width < 4 || !curve) return;
        const ends = [left, left + width].map((position) =>
          curve.step[nearest(curve.x, plot.posToVal(position, "x"))]);
        plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
        latest.current.onZoom?.(ends[0], ends[1] + curve.width);
      }],
    },
  };
}

/** The ends of x: the requested ends, or else the ends of the curves. */
const xsOf = ({ xs, curves }) => xs ?? xRange(curves);

/** uPlot gets only the ends of x, which it needs for the axes. */
function dataOf(props) {
  return [xsOf(props), [null, null]];
}

/** Values of all curves at the bucket nearest to a step. */
export function atStep(curves, step) {
  if (step === null || step === undefined) return [];
  return curves.map((curve) => {
    const place = nearest(curve.step, step);
    if (place < 0) return { name: curve.name, step, text: "no value" };
    const bad = badWords(curve.bad[place]);
    const value = Number.isFinite(curve.last[place]) ? number(curve.last[place]) : "";
    return { name: curve.name, step: curve.step[place],
      text: [value, bad].filter(Boolean).join(", ") || "no value" };
  });
}

function badWords(bits) {
  return ["NaN", "Inf", "-Inf"].filter((_, bit) => bits & (1 << bit)).join(", ");
}

/** The first step with a mark or a value that is not finite. */
export function firstBad(curves, marks) {
  const steps = marks.map((mark) => mark.step);
  for (const curve of curves) {
    const place = curve.bad.findIndex(Boolean);
    if (place >= 0) steps.push(curve.step[place]);
  }
  return steps.length ? Math.min(...steps) : null;
}

/** What the picture shows, in a sentence. */
function sentence(title, curves, marks) {
  const [first] = curves;
  if (!first?.count) return `${title}: no values`;
  let [high, where] = [-Infinity, 0];
  let bad = 0;
  for (let place = 0; place < first.count; place += 1) {
    if (first.max[place] > high) [high, where] = [first.max[place], first.step[place]];
    bad += first.bad[place] ? 1 : 0;
  }
  const steps = `steps ${number(first.step[0])} to ${number(first.step[first.count - 1])}`;
  const top = Number.isFinite(high) ? `, highest ${number(high)} at step ${number(where)}` : "";
  const lane = bad ? `, not finite in ${bad} of ${first.count} points` : "";
  const fired = marks.filter((mark) => mark.severity === "limit").length;
  const told = (marks.length > fired ? `, ${marks.length - fired} findings marked` : "") +
    (fired ? `, ${fired} firings of the rule marked` : "");
  return `${title}, ${steps}${top}${lane}${told}. Arrow keys move the cursor, t shows a table.`;
}
