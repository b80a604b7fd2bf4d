/** Opens a line of the script in an editor, with a URL scheme that the editor has registered. */
import { signal } from "@preact/signals";
import { runAnswer } from "../data.js";
import { html } from "../html.js";
import { keep, kept } from "./save.js";

const EDITORS = {
  "VS Code": (file, line) => `vscode://file${file}:${line}`,
  Cursor: (file, line) => `cursor://file${file}:${line}`,
  PyCharm: (file, line) => `pycharm://open?file=${file}&line=${line}`,
  Zed: (file, line) => `zed://file${file}:${line}`,
};

const editor = signal(kept("editor") in EDITORS ? kept("editor") : "VS Code");

function choose(name) {
  editor.value = name;
  keep("editor", name);
}

/** The address of a line; "" if the file is unknown. @param {string} location file:line */
function addressOf(location, folder) {
  const [, file, line] = /^(.+):(\d+)$/.exec(location) ?? [];
  if (!file || (!file.startsWith("/") && !folder)) return "";
  const path = file.startsWith("/") ? file : `${folder}/${file}`;
  return EDITORS[editor.value](path.split("/").map(encodeURIComponent).join("/"), line);
}

/** @param {{location: string}} props */
export function OpenInEditor({ location }) {
  const address = addressOf(location, runAnswer.value.value?.cwd ?? "");
  if (!address) return null;
  return html`<p class="tools"><a class="button" href=${address}>Open in editor</a>
    <label>Editor <select value=${editor.value} onChange=${(event) => choose(event.target.value)}>
      ${Object.keys(EDITORS).map((name) => html`<option key=${name} selected=${name === editor.value}>${name}</option>`)}
    </select></label></p>`;
}
