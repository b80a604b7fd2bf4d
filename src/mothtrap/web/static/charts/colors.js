/** Colors of charts, from the style sheet, so that both schemes are one place. */

/** @param {string} name of a custom property @returns {string} */
export function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

export const SERIES = 8;
/** @param {number} place */
export const seriesColor = (place) => color(`--series-${(place % SERIES) + 1}`);

/** Places of runs in the series of colors. @type {Map<string, number>} */
const places = new Map();

/** The color of a run: the same in every view, whichever other runs are shown.
 * @param {string} name @param {string[]} shown names of all runs of the chart */
export function runColor(name, shown) {
  if (!places.has(name)) {
    const uses = (names, place) => names.filter((each) => places.get(each) === place).length;
    const rank = (place) => uses(shown, place) * 1e6 + uses([...places.keys()], place);
    const free = Array.from({ length: SERIES }, (_, place) => place);
    places.set(name, free.reduce((best, place) => (rank(place) < rank(best) ? place : best), 0));
  }
  return seriesColor(places.get(name) ?? 0);
}

export const CIVIDIS = [[0, 34, 78], [59, 77, 107], [124, 123, 120], [185, 172, 112], [254, 232, 56]];

/** A color between others. @param {number[][]} stops @param {number} share from 0 to 1 */
export function between(stops, share) {
  const at = share * (stops.length - 1);
  const low = Math.min(Math.floor(at), stops.length - 2);
  return stops[low].map((value, part) =>
    Math.round(value + (stops[low + 1][part] - value) * (at - low)));
}

/** The color of a size that is seen on the page. @param {number} share from 0 to 1 */
export const cividis = (share) =>
  `rgb(${between(CIVIDIS, isDark() ? 0.25 + 0.75 * share : 0.85 * share).join(" ")})`;

/** Whether the page is dark. */
export const isDark = () => (document.documentElement.dataset.theme
  ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";

const CHANGED = "mothtrap-colors";

/** Draw anew when the colors of the page change. @param {() => void} draw @returns {() => void} ends it */
export function onColors(draw) {
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  scheme.addEventListener("change", draw);
  window.addEventListener(CHANGED, draw);
  return () => {
    scheme.removeEventListener("change", draw);
    window.removeEventListener(CHANGED, draw);
  };
}

/** Say that the colors have changed. */
export const colorsChanged = () => window.dispatchEvent(new Event(CHANGED));
