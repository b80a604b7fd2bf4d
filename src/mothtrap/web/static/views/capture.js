/** Asks a running job to capture more tensors. */
import { useState } from "preact/hooks";
import { runAnswer, source } from "../data.js";
import { html } from "../html.js";
import { Command } from "../parts/copy.js";
import { run } from "../state.js";

export function CaptureMore() {
  const [said, setSaid] = useState({ text: "", bad: false });
  const controls = runAnswer.value.value?.controls ?? [];
  if (!controls.includes("capture")) return null;
  const send = async (event) => {
    event.preventDefault();
    const form = new FormData(event.target);
    setSaid({ text: "Waiting for the job …", bad: false });
    try {
      const done = await source.control(run.value, "capture", {
        tensors: String(form.get("tensors")), for_steps: Number(form.get("steps")) || null });
      setSaid({ text: done.message, bad: false });
    } catch (error) {
      setSaid({ text: error.message, bad: true });
    }
  };
  return html`<details class="fold"><summary>Capture more</summary>
    <form onSubmit=${send} class="tools">
      <label>Tensors <input name="tensors" required placeholder="gradients:blocks.0.*" /></label>
      <label>Steps <input name="steps" type="number" min="1" value="100" /></label>
      <button>Capture</button>
    </form>
    <p role="status" class=${said.bad ? "problem" : "muted"}>${said.text}</p></details>`;
}

/** How to capture more of a tensor: in a running job with a command, in a new run with settings.
 * @param {{tensor: string, options: string, settings: string[]}} props */
export function HowToCapture({ tensor, options, settings }) {
  const about = runAnswer.value.value;
  if (about?.controls.includes("capture")) {
    return html`<p class="step"><span>To capture more in the running job</span> <${Command}
      text=${`mothtrap capture ${about.called} --add '${tensor}' ${options}`} /></p>`;
  }
  const lines = ["[collections.more]", `tensors = [${JSON.stringify(tensor)}]`, ...settings];
  return html`<p>To capture it in a new run, add these lines to <code>mothtrap.toml</code>:</p>
    <pre class="source plain">${lines.join("\n")}</pre>`;
}
