/** A matrix of numbers as a picture: blue below 0, orange above; or by size if no number is negative. */
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { number } from "../format.js";
import { html } from "../html.js";
import { spoken } from "../state.js";
import { paint } from "./cells.js";
import { onColors } from "./colors.js";
import { BAD, palette } from "./palette.js";

const LARGEST = 520;

/** @param {{cells: (number | string | null)[][], low: number, high: number, title: string,
 *   place: (row: number, column: number) => string}} props `place`: a cell's place in words */
export function MatrixPicture({ cells, low, high, title, place }) {
  const canvas = useRef(null);
  const [here, setHere] = useState(null);
  const rows = cells.length;
  const columns = cells[0]?.length ?? 0;
  const signed = low < 0;
  const side = Math.max(1, Math.min(24, Math.floor(LARGEST / Math.max(rows, columns, 1))));
  useLayoutEffect(() => {
    const draw = () => {
      canvas.current.width = columns * side;
      canvas.current.height = rows * side;
      const context = canvas.current.getContext("2d", { willReadFrequently: true });
      const image = context.createImageData(columns * side, rows * side);
      const codes = Uint8Array.from(cells.flat(), codeOf(low, high, signed));
      paint(image, { codes, columns, first: 0 }, palette(signed), side, 0);
      context.putImageData(image, 0, 0);
    };
    if (rows && columns) draw();
    return onColors(draw);
  }, [cells, low, high]);
  const say = ([row, column]) => `${place(row, column)}: ${shown(cells[row][column])}`;
  const point = (event) => {
    const box = canvas.current.getBoundingClientRect();
    const at = (position, count) => Math.min(Math.max(Math.floor(position * count), 0), count - 1);
    setHere([at((event.clientY - box.top) / box.height, rows),
      at((event.clientX - box.left) / box.width, columns)]);
  };
  const keys = (event) => {
    const [row, column] = here ?? [0, 0];
    const far = event.shiftKey ? 10 : 1;
    const moves = { ArrowLeft: [0, -far], ArrowRight: [0, far], ArrowUp: [-far, 0], ArrowDown: [far, 0] };
    if (!(event.key in moves)) return;
    const [down, right] = moves[event.key];
    const next = [Math.min(Math.max(row + down, 0), rows - 1), Math.min(Math.max(column + right, 0), columns - 1)];
    setHere(next);
    spoken.value = say(next);
    event.preventDefault();
    event.stopPropagation();
  };
  return html`<figure class="matrix"><canvas ref=${canvas} role="img" tabindex="0" data-side=${side}
      aria-label="${title}, ${number(rows)} rows, ${number(columns)} columns, from ${number(low)} to ${
        number(high)}. Arrow keys move the cursor." onPointerMove=${point} onKeyDown=${keys}></canvas>
    <figcaption>${here && here[0] < rows && here[1] < columns ? say(here) : `from ${number(low)} to ${number(high)}`}</figcaption></figure>`;
}

const shown = (value) => (value === null ? "NaN" : typeof value === "string" ? value : number(value));

/** The code of a number between the ends; 128 means 0 if numbers are signed. */
function codeOf(low, high, signed) {
  const limit = Math.max(Math.abs(low), Math.abs(high)) || 1;
  const [begin, span] = signed ? [-limit, 2 * limit] : [low, high - low || 1];
  return (value) => (typeof value === "number" ? 2 + Math.round(252 * (value - begin) / span) : BAD);
}
