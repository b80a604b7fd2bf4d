/** A curve the size of a word. Its numbers are on the page as text, so screen readers skip it. */
import { useEffect, useRef } from "preact/hooks";
import { html } from "../html.js";
import { color } from "./colors.js";

const [WIDTH, HEIGHT] = [120, 24];

/** @param {{curve: import("../source.js").Curve | undefined, mark?: number}} props */
export function Spark({ curve, mark }) {
  const canvas = useRef(null);
  useEffect(() => {
    if (!curve || !canvas.current) return;
    const scale = devicePixelRatio || 1;
    canvas.current.width = WIDTH * scale;
    canvas.current.height = HEIGHT * scale;
    const context = canvas.current.getContext("2d");
    context.scale(scale, scale);
    draw(context, curve, mark);
  }, [curve, mark]);
  return html`<canvas ref=${canvas} class="spark" width=${WIDTH} height=${HEIGHT} aria-hidden="true" />`;
}

/** Logarithmic if all values are positive, because losses that go wrong change by powers of ten. */
function draw(context, curve, mark) {
  const values = Array.from(curve.last).filter(Number.isFinite);
  if (!values.length) return;
  const log = values.every((value) => value > 0);
  const scaled = (value) => (log ? Math.log(value) : value);
  const low = Math.min(...values.map(scaled));
  const high = Math.max(...values.map(scaled));
  const [first, last] = [curve.step[0], curve.step[curve.count - 1]];
  const x = (step) => 2 + ((WIDTH - 4) * (step - first)) / (last - first || 1);
  const y = (value) => HEIGHT - 5 - ((HEIGHT - 8) * (scaled(value) - low)) / (high - low || 1);
  if (mark !== undefined) {
    context.strokeStyle = color("--error");
    context.beginPath();
    context.moveTo(x(mark), 0);
    context.lineTo(x(mark), HEIGHT);
    context.stroke();
  }
  context.strokeStyle = color("--series-1");
  context.lineWidth = 1.4;
  context.beginPath();
  let before = false;
  curve.last.forEach((value, place) => {
    if (!Number.isFinite(value)) { before = false; return; }
    if (before) context.lineTo(x(curve.step[place]), y(value));
    else context.moveTo(x(curve.step[place]), y(value));
    before = true;
  });
  context.stroke();
  context.fillStyle = color("--bad");
  curve.bad.forEach((bits, place) => {
    if (bits) context.fillRect(x(curve.step[place]) - 1, HEIGHT - 3, 2, 3);
  });
}
