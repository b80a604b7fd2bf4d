/** Status as shape, word and color. */
import { html } from "../html.js";

const SIGNS = {
  error: ["✖", "error"], warning: ["▲", "warning"], info: ["●", "note"], ok: ["✔", "ok"],
  running: ["▶", "running"], finished: ["■", "finished"], crashed: ["‼", "crashed"],
  not_enough_data: ["○", "more data needed"], not_applicable: ["–", "not applicable"],
  rule_failed: ["‼", "rule failed"], pending: ["…", "reading"], unreadable: ["‼", "unreadable"],
};

/** The shape alone, for the title of the tab. @param {string} of */
export const sign = (of) => SIGNS[of]?.[0] ?? "";

/** @param {{of: string, word?: string, quiet?: boolean}} props `quiet`: the word is for screen readers only */
export function Status({ of, word, quiet }) {
  const [sign, known] = SIGNS[of] ?? ["●", of];
  const text = word || known;
  return html`<span class="status ${of}"><span aria-hidden="true">${sign}</span>
    <span class=${quiet ? "hidden" : ""}> ${text}</span></span>`;
}
