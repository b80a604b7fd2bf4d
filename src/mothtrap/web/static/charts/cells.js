/** Cells of a heatmap: decoded from the server's bytes, and drawn as pixels of a canvas. */
import { BAD } from "./palette.js";

const HATCH = 3;

/** Read a head and cells from bytes. @param {ArrayBuffer} buffer */
export function unpackedCells(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const codes = new Uint8Array(buffer.slice(4 + length));
  for (let begin = 0; begin < codes.length; begin += head.columns) {
    for (let place = begin + 1; place < begin + head.columns; place += 1) codes[place] += codes[place - 1];
  }
  return { ...head, codes };
}

/** Widen columns with values to `least` columns if the columns to their right are empty. */
export function widened(cells, least) {
  const { columns } = cells;
  const codes = cells.codes.slice();
  const rows = Array.from({ length: columns ? codes.length / columns : 0 }, (_, row) => row * columns);
  for (let at = 0, from = -least; at < columns; at += 1) {
    if (rows.some((row) => codes[row + at])) from = at;
    else if (at - from < least) for (const row of rows) codes[row + at] = codes[row + from];
  }
  return { ...cells, codes };
}

/** Draw rows of cells; every column gets at least one pixel, if there are enough.
 * @param {ImageData} image @param {{codes: Uint8Array, columns: number, first: number}} cells
 * @param {{pixels: Uint32Array, hatch: number}} colors @param {number} rowHeight in pixels
 * @param {number} top number of pixels of all rows above the image */
export function paint(image, cells, colors, rowHeight, top) {
  const { width, height } = image;
  const { codes, columns, first } = cells;
  const out = new Uint32Array(image.data.buffer);
  const count = columns ? codes.length / columns : 0;
  const starts = Array.from({ length: columns + 1 }, (_, place) => Math.ceil(place * width / columns));
  for (let y = 0; y < height; y += 1) {
    const row = Math.floor((y + top) / rowHeight) - first;
    const line = y * width;
    if (row < 0 || row >= count) {
      out.fill(0, line, line + width);
      continue;
    }
    const base = row * columns;
    for (let column = 0; column < columns; column += 1) {
      const code = codes[base + column];
      const end = line + starts[column + 1];
      const color = colors.pixels[code];
      for (let at = line + starts[column]; at < end; at += 1) out[at] = color;
      if (code !== BAD) continue;
      for (let at = line + starts[column]; at < end; at += 1) {
        if (((at - line + y) >> HATCH & 1) === 1) out[at] = colors.hatch;
      }
    }
  }
}
