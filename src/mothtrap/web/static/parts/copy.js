/** A command with a button that copies it. */
import { useState } from "preact/hooks";
import { html } from "../html.js";
import { spoken } from "../state.js";

/** @param {string} text @param {string} what */
export async function copy(text, what = "Command") {
  try {
    await navigator.clipboard.writeText(text);
    spoken.value = `${what} copied`;
    return true;
  } catch {
    spoken.value = `${what} could not be copied; select and copy it manually`;
    return false;
  }
}

/** @param {{text: string, label?: string}} props */
export function Command({ text, label = "Copy" }) {
  const [done, setDone] = useState(false);
  const act = async () => {
    setDone(await copy(text));
    setTimeout(() => setDone(false), 1500);
  };
  return html`<span class="command"><code>${text}</code>
    <button data-copy=${text} onClick=${act} aria-label="${label}: ${text}">
      ${done ? "Copied" : label}</button></span>`;
}
