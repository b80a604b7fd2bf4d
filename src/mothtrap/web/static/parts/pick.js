/** A choice that is stored in the address. */
import { html } from "../html.js";
import { change } from "../state.js";

/** @param {{label: string, name: string, now: string, choices: [string, string][], also?: object}} props
 *   `also`: what else changes with it */
export function Pick({ label, name, now, choices, also = {} }) {
  return html`<label>${label} <select value=${now}
      onChange=${(event) => change({ ...also, [name]: event.target.value })}>
    ${choices.map(([id, text]) => html`<option key=${id} value=${id} selected=${id === now}>${text}</option>`)}
    </select></label>`;
}
