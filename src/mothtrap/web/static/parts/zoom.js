/** Keys that zoom and pan; the range of steps is stored in the address. */
import { useEffect } from "preact/hooks";
import { actions } from "../keys.js";
import { change, value } from "../state.js";

/** A whole number from the address; null if it is missing. @param {string} text */
export const whole = (text) => (text === "" ? null : Math.max(0, Math.round(Number(text)) || 0));

/** @param {number | null} from @param {number | null} to @param {number} steps of the run */
export function useZoom(from, to, steps) {
  useEffect(() => {
    const begin = from ?? 0;
    const end = Math.max(to ?? steps, begin + 1);
    const set = (first, length) => {
      const all = length >= steps;
      const start = Math.round(Math.min(Math.max(first, 0), Math.max(0, steps - length)));
      change(all ? { from: null, to: null } : { from: start, to: Math.round(start + length) });
    };
    actions.set("zoom", (factor) => {
      const length = Math.max(4, (end - begin) * factor);
      const middle = whole(value("at")) ?? (begin + end) / 2;
      set(middle - length / 2, length);
    });
    actions.set("pan", (share) => set(begin + share * (end - begin), end - begin));
    return () => { actions.delete("zoom"); actions.delete("pan"); };
  });
}
