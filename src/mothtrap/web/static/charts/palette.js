/** Colors of heatmaps as 32-bit pixels: one for each code of a cell. */
import { CIVIDIS, between, isDark } from "./colors.js";

/** Below the median, at it, above it: of ratios. */
const RATIO = [[22, 93, 177], [112, 163, 214], [226, 222, 212], [233, 150, 74], [178, 76, 2]];
const RATIO_DARK = [[128, 190, 255], [58, 104, 158], [70, 72, 76], [168, 96, 34], [255, 166, 84]];
const NOTHING = { light: [250, 249, 246], dark: [24, 25, 27] };
/** Color of the value 0, distinct from the smallest number. */
const ZERO = { light: [150, 146, 138], dark: [92, 92, 96] };
const EMPTY = { light: [255, 255, 255], dark: [29, 31, 34] };
export const BAD = 255;
const [FIRST, LAST] = [2, 254];

/** @param {number[]} color red, green, blue */
export const pixel = ([red, green, blue]) => (255 << 24 | blue << 16 | green << 8 | red) >>> 0;

/** The color of each code, and the two of what is not finite.
 * @param {boolean} ratio whether codes stand for ratios
 * @param {boolean} faint whether 0 means nothing, as a share of 0 does */
export function palette(ratio, faint = false, dark = isDark()) {
  const scheme = dark ? "dark" : "light";
  const stops = ratio ? (dark ? RATIO_DARK : RATIO) : CIVIDIS;
  const pixels = new Uint32Array(256);
  pixels[0] = pixel(NOTHING[scheme]);
  pixels[1] = pixel(faint ? EMPTY[scheme] : ZERO[scheme]);
  for (let code = FIRST; code <= LAST; code += 1) {
    pixels[code] = pixel(between(stops, (code - FIRST) / (LAST - FIRST)));
  }
  pixels[BAD] = pixel([214, 30, 190]);
  return { pixels, hatch: pixel([255, 190, 246]) };
}

/** Stops of a legend, from low to high. @param {boolean} ratio */
export const legendStops = (ratio) => (ratio ? (isDark() ? RATIO_DARK : RATIO) : CIVIDIS)
  .map((each) => `rgb(${each.join(" ")})`);
export const nothingColor = () => `rgb(${NOTHING[isDark() ? "dark" : "light"].join(" ")})`;
export const zeroColor = () => `rgb(${ZERO[isDark() ? "dark" : "light"].join(" ")})`;
