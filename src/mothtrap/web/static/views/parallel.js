/** Parallel coordinates: an axis for each column of the table of runs, a line for each run. */
import { useState } from "preact/hooks";
import { cividis } from "../charts/colors.js";
import { number } from "../format.js";
import { html } from "../html.js";
import { Scroll } from "../parts/basics.js";
import { href } from "../state.js";

const [APART, TOP, HEIGHT, SIDE] = [130, 26, 250, 70];
const SPREAD = 100;

/** @typedef {{id: string, title: string, values: (number | string | undefined)[], log: boolean,
 *   texts: any[], at: (value: number | string) => number, ends: string[]}} Axis `at`: from 0 (bottom) to 1 */

const isOdd = (value) => ["NaN", "Infinity", "-Infinity"].includes(String(value));

/** The axis of a column; logarithmic if the values are positive and far apart.
 * @param {any[]} rows @param {string} id @returns {Axis} */
export function axisOf(rows, id) {
  const title = id.slice(id.indexOf(".") + 1);
  const values = rows.map((row) => (id.startsWith("metric.") ? row.metrics : row.parameters)[title] ?? undefined);
  const known = values.filter((value) => value !== undefined && !isOdd(value));
  const numbers = known.map((value) => (value === "" || typeof value === "boolean" ? NaN : Number(value)));
  if (known.length && numbers.every(Number.isFinite)) {
    const [low, high] = [Math.min(...numbers), Math.max(...numbers)];
    const log = low > 0 && high / low > SPREAD;
    const scaled = (value) => (log ? Math.log(Number(value)) : Number(value));
    return { id, title, values: values.map((value) => (isOdd(value) ? undefined : value)), texts: values, log, ends: [number(low), number(high)],
      at: (value) => (high > low ? (scaled(value) - scaled(low)) / (scaled(high) - scaled(low)) : 0.5) };
  }
  const words = [...new Set(values.filter((value) => value !== undefined).map(String))].sort((a, b) => a.localeCompare(b));
  return { id, title, values, texts: values, log: false, ends: [words[0] ?? "", words[words.length - 1] ?? ""],
    at: (value) => (words.length > 1 ? words.indexOf(String(value)) / (words.length - 1) : 0.5) };
}

/** @param {{rows: any[], columns: string[]}} props rows of the table, and its columns */
export function Parallel({ rows, columns }) {
  const [near, setNear] = useState("");
  const axes = columns.map((id) => axisOf(rows, id));
  if (axes.length < 2) return html`<p class="muted">Select at least two columns.</p>`;
  const last = axes[axes.length - 1];
  const width = 2 * SIDE + APART * (axes.length - 1);
  const y = (axis, value) => TOP + HEIGHT * (1 - axis.at(value));
  const lines = rows.map((row, place) => {
    const points = axes.map((axis, column) => [SIDE + APART * column, axis.values[place], axis])
      .filter(([, value]) => value !== undefined);
    const end = last.values[place];
    const share = end === undefined ? 0.5 : last.at(end);
    return { name: row.name, color: end === undefined ? "gray" : cividis(share),
      points: points.map(([x, value, axis]) => `${x},${y(axis, value).toFixed(1)}`).join(" "),
      said: axes.map((axis) => `${axis.title} ${axis.texts[place] ?? "not set"}`).join(", ") };
  }).filter((line) => line.points.includes(" "));
  const found = lines.find((line) => line.name === near);
  return html`<${Scroll} label="Parallel coordinates">
      <svg class="parallel" width=${width} height=${TOP + HEIGHT + 24} role="img"
        aria-label=${`${lines.length} runs over ${axes.map((axis) => axis.title).join(", ")}; the table has the numbers`}>
        ${lines.map((line) => html`<polyline key=${line.name} points=${line.points} stroke=${line.color}
          class=${line.name === near ? "near" : ""} onMouseEnter=${() => setNear(line.name)}>
          <title>${line.name}: ${line.said}</title></polyline>`)}
        ${axes.map((axis, column) => html`<g key=${axis.id} transform=${`translate(${SIDE + APART * column} 0)`}>
          <line y1=${TOP} y2=${TOP + HEIGHT} />
          <text y="12">${axis.title.slice(-18)}${axis.log ? " (log)" : ""}</text>
          <text y=${TOP - 2} class="end">${axis.ends[1].slice(0, 16)}</text>
          <text y=${TOP + HEIGHT + 14} class="end">${axis.ends[0].slice(0, 16)}</text></g>`)}
      </svg></${Scroll}>
    <p class="muted">${found ? html`<a href=${href("overview", { run: found.name })}>${found.name}</a>: ${found.said}`
      : `Hover over a line to see its run. The color follows ${last.title}. "Columns" selects the axes.`}</p>`;
}
