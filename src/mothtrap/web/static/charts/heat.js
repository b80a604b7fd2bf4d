/** A heatmap of rows over steps. Only visible rows are drawn, with one `putImageData`; the names
 * next to them are elements of the page. */
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { html } from "../html.js";
import { paint, widened } from "./cells.js";
import { onColors } from "./colors.js";
import { palette } from "./palette.js";

const MOST_HEIGHT = 512;
const DRAG = 4;
const MARK = 8;

/** @param {{cells: any, rowHeight: number, label: (place: number) => unknown, sentence: string,
 *   ratio?: boolean, at?: number | null, here?: number, onMove: (row: number, step: number) => void,
 *   onHover?: (row: number, step: number) => void, onPick?: (row: number, step: number) => void,
 *   onZoom?: (from: number, to: number) => void, onSight?: (first: number, count: number) => void,
 *   keys?: (event: KeyboardEvent) => boolean, maxHeight?: number, sparse?: boolean}} props
 *   `sparse`: names may be higher than a row, and a 0 is invisible; `cells`: from `unpackedCells`, with `total` rows, loaded from `first` on */
export function Heat(props) {
  const { cells, rowHeight, label, sentence, ratio = false, at = null, here = -1 } = props;
  const box = useRef(null);
  const canvas = useRef(null);
  const drag = useRef(null);
  const [top, setTop] = useState(0);
  const [size, setSize] = useState({ width: 0, scale: 1 });
  const [picked, setPicked] = useState(null);
  const all = cells.total * rowHeight;
  const height = Math.min(all, props.maxHeight ?? MOST_HEIGHT);
  const first = Math.floor(top / rowHeight);
  const last = Math.min(cells.total, Math.ceil((top + height) / rowHeight));

  useEffect(() => {
    const measure = () => setSize({ width: canvas.current?.clientWidth ?? 0, scale: devicePixelRatio || 1 });
    const watched = new ResizeObserver(measure);
    watched.observe(canvas.current);
    const quiet = onColors(measure);
    return () => { watched.disconnect(); quiet(); };
  }, []);
  useEffect(() => { props.onSight?.(first, last - first); }, [first, last]);
  useLayoutEffect(() => { draw(canvas.current, cells, size, { rowHeight, height, top, ratio, faint: props.sparse }); },
    [cells, size, top, height, rowHeight, ratio]);
  useEffect(() => {  // scroll to the row that the keyboard has selected
    const { scrollTop } = box.current;
    if (here < 0) return;
    if (here * rowHeight < scrollTop) box.current.scrollTop = here * rowHeight;
    else if ((here + 1) * rowHeight > scrollTop + height) {
      box.current.scrollTop = (here + 1) * rowHeight - height;
    }
  }, [here]);

  const columnAt = (event) => {
    const { left, width } = canvas.current.getBoundingClientRect();
    const share = Math.min(Math.max((event.clientX - left) / width, 0), 1 - 1e-9);
    return Math.floor(share * cells.columns);
  };
  const stepOf = (column) => cells.begin + column * cells.width;
  const rowAt = (event) => {
    const y = event.clientY - canvas.current.getBoundingClientRect().top;
    return Math.min(Math.max(Math.floor((y + top) / rowHeight), 0), cells.total - 1);
  };
  const down = (event) => {
    if (event.button) return;
    drag.current = { from: columnAt(event), range: null };
    canvas.current.setPointerCapture(event.pointerId);
  };
  const moved = (event) => {
    const column = columnAt(event);
    const dragged = drag.current;
    if (dragged && (dragged.range || Math.abs(column - dragged.from) * pixels() >= DRAG)) {
      dragged.range = [Math.min(column, dragged.from), Math.max(column, dragged.from) + 1];
      setPicked(dragged.range);
    }
    props.onHover?.(rowAt(event), stepOf(column));
  };
  const up = (event) => {
    const dragged = drag.current;
    drag.current = null;
    setPicked(null);
    if (dragged?.range) props.onZoom?.(...dragged.range.map(stepOf));
    else if (dragged) props.onPick?.(rowAt(event), stepOf(columnAt(event)));
  };
  const pixels = () => size.width / cells.columns;
  const keys = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const far = event.shiftKey ? 10 : 1;
    const row = Math.max(here, 0);
    const now = at === null ? cells.columns - 1 : Math.floor((at - cells.begin) / cells.width);
    const moves = { ArrowLeft: [0, -far], ArrowRight: [0, far], ArrowUp: [-far, 0], ArrowDown: [far, 0],
      PageUp: [first - last, 0], PageDown: [last - first, 0] };
    if (event.key in moves) {
      const [down, right] = moves[event.key];
      props.onMove(within(row + down, cells.total), stepOf(within(now + right, cells.columns)));
    } else if (event.key === "Enter") props.onPick?.(row, stepOf(within(now, cells.columns)));
    else if (!props.keys?.(event)) return;
    event.preventDefault();
    event.stopPropagation();
  };

  const cursor = at === null ? -1 : (at - cells.begin) / cells.width;
  const places = rowHeight < 12 && !props.sparse ? [] : Array.from({ length: last - first }, (_, place) => first + place);
  return html`<div class="heat scroll ${props.sparse ? "sparse" : ""}" ref=${box} style=${{ height: `${height}px` }}
      onScroll=${(event) => setTop(event.currentTarget.scrollTop)}>
    <div class="tall" style=${{ height: `${all}px` }}>
      <div class="stage" style=${{ height: `${height}px` }}>
        <div class="names"><div style=${{ transform: `translateY(${first * rowHeight - top}px)` }}>
          ${places.map((place) => html`<div key=${place} class="name-row ${place === here ? "here" : ""}"
            style=${{ height: `${rowHeight}px`, lineHeight: `${rowHeight}px` }}>${label(place)}</div>`)}
        </div></div>
        <div class="plane">
          <canvas ref=${canvas} role="img" tabindex="0" aria-label=${sentence} onKeyDown=${keys}
            onPointerDown=${down} onPointerMove=${moved} onPointerUp=${up}
            data-columns=${cells.columns} data-first=${cells.first} data-rows=${cells.total}></canvas>
          ${cursor >= 0 && cursor < cells.columns && html`<div class="at-step" style=${{
            left: `${100 * cursor / cells.columns}%`, width: `max(2px, ${100 / cells.columns}%)` }}></div>`}
          ${here >= first && here < last && html`<div class="at-row" style=${{
            top: `${here * rowHeight - top}px`, height: `${rowHeight}px` }}></div>`}
          ${picked && html`<div class="picked" style=${{ left: `${100 * picked[0] / cells.columns}%`,
            width: `${100 * (picked[1] - picked[0]) / cells.columns}%` }}></div>`}
        </div>
      </div></div></div>`;
}

const within = (place, count) => Math.min(Math.max(place, 0), count - 1);

/** Draw the visible part, at the resolution of the screen. */
function draw(canvas, cells, size, { rowHeight, height, top, ratio, faint }) {
  const width = Math.round(size.width * size.scale);
  if (!width || !height) return;
  canvas.width = width;
  canvas.height = Math.round(height * size.scale);
  const context = canvas.getContext("2d", { willReadFrequently: true });
  const image = context.createImageData(canvas.width, canvas.height);
  const shown = faint ? widened(cells, Math.round(MARK * cells.columns / size.width)) : cells;
  paint(image, shown, palette(ratio, faint), rowHeight * size.scale, top * size.scale);
  context.putImageData(image, 0, 0);
}
