/** The list of keyboard shortcuts, made from `KEYS`. */
import { useEffect, useRef } from "preact/hooks";
import { html } from "../html.js";
import { KEYS } from "../keys.js";
import { help } from "../state.js";

export function Help() {
  const box = useRef(null);
  useEffect(() => {
    if (!help.value) return box.current?.close();
    box.current?.showModal();  // it scrolls to the first button, at the end of the list
    box.current?.scrollTo(0, 0);
    return undefined;
  }, [help.value]);
  return html`<dialog ref=${box} aria-labelledby="keys-title" onClose=${() => { help.value = false; }}>
    <h2 id="keys-title">Keyboard shortcuts</h2>
    <table><tbody>${KEYS.map((each) => html`<tr key=${each.does}>
      <th scope="row">${each.keys.map((key) => html`<kbd>${key}</kbd> `)}</th><td>${each.does}</td></tr>`)}
    </tbody></table>
    <button onClick=${() => { help.value = false; }}>Close</button>
  </dialog>`;
}
