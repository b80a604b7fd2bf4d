/** Choices that are part of the address. */
import { runAnswer } from "../data.js";
import { number } from "../format.js";
import { html } from "../html.js";
import { useActions } from "../keys.js";
import { change, value } from "../state.js";

/** @param {{label: string, name: string, now: string, choices: (string | [string, string])[], also?: object}} props
 *   `choices`: values, or each with its text; `also`: what else changes with it */
export function Pick({ label, name, now, choices, also = {} }) {
  return html`<label>${label} <select value=${now}
      onChange=${(event) => change({ ...also, [name]: event.target.value })}>
    ${choices.map((each) => [each].flat()).map(([id, text = id.replaceAll("_", " ")]) => html`
      <option key=${id} value=${id} selected=${id === now}>${text}</option>`)}
    </select></label>`;
}

export const PickRange = ({ now }) => html`<${Pick} label="range" name="range" now=${now}
  choices=${[["all", "all values"], ["robust", "1st to 99th percentile"]]} />`;

/** The rank whose tensors are shown, of a run with several.
 * @param {{workers?: number[]}} props `workers`: those that can be chosen */
export function PickRank({ workers = [] }) {
  return runAnswer.value.value?.workers.length > 1 && html`<${Pick} label="rank" name="worker"
    now=${value("worker", String(workers[0]))} choices=${workers.map(String)} />`;
}

/** A search by name. @param {{name?: string, hint?: string, also?: object}} props
 *   `name`: its name in the address; `also`: what else changes with it */
export function Search({ name = "query", hint = "blocks.*.attn", also = {} }) {
  return html`<label>Search <input data-search type="search" value=${value(name)} placeholder=${hint}
    onInput=${(event) => change({ ...also, [name]: event.target.value })} /></label>`;
}

/** A choice of the address if there is such, else the first usual one that there is.
 * @param {string} name @param {string[]} known @param {string[]} usual */
export function picked(name, known, usual = ["l2"]) {
  return [value(name), ...usual].find((each) => known.includes(each)) ?? known[0];
}

/** Kinds of tensors, those that say most first. */
export const USUAL_KINDS = ["gradient", "weight", "activation"];

/** A whole number of the address; null where there is none. @param {string} text */
export const whole = (text) => (text === "" ? null : Math.max(0, Math.round(Number(text)) || 0));

/** The range of steps in the address, which keys zoom and pan. @returns {(number | null)[]} */
export function useZoom() {
  const [from, to] = [whole(value("from")), whole(value("to"))];
  const steps = runAnswer.value.value?.steps ?? 0;
  const begin = from ?? 0;
  const end = Math.max(to ?? steps, begin + 1);
  const set = (first, length) => {
    const start = Math.round(Math.min(Math.max(first, 0), Math.max(0, steps - length)));
    change(length >= steps ? { from: null, to: null } : { from: start, to: Math.round(start + length) });
  };
  useActions({
    zoom: (factor) => {
      const length = Math.max(4, (end - begin) * factor);
      set((whole(value("at")) ?? (begin + end) / 2) - length / 2, length);
    },
    pan: (share) => set(begin + share * (end - begin), end - begin),
  });
  return [from, to];
}

/** A button that leaves a range of steps. */
export function AllSteps() {
  const [from, to] = [value("from"), value("to")];
  return (from || to) && html`<button onClick=${() => change({ from: null, to: null })}>All steps</button>
    <span class="muted">steps ${number(Number(from))} to ${to ? number(Number(to)) : "the last"}</span>`;
}
