/** Buttons that ask the server for a change, and say what came of it. */
import { useState } from "preact/hooks";
import { source, ticks } from "../data.js";
import { html } from "../html.js";
import { run, spoken } from "../state.js";

/** @param {{what: string, body: object, children: unknown, sure?: string}} props `sure`: a question
 *   that a second click answers */
export function Ask({ what, body, children, sure = "" }) {
  const [asked, setAsked] = useState(false);
  const [problem, setProblem] = useState("");
  const [waiting, setWaiting] = useState(false);
  const act = async () => {
    if (sure && !asked) return setAsked(true);
    setWaiting(true);
    setProblem("");
    try {
      spoken.value = (await source.control(run.value, what, body)).message;
      ticks.finding.value += 1;
    } catch (error) {
      setProblem(error.message);
    }
    setWaiting(false);
    return setAsked(false);
  };
  return html`<button onClick=${act} disabled=${waiting} onBlur=${() => setAsked(false)}>
    ${waiting ? "Waiting …" : asked ? sure : children}</button>
    ${problem && html`<span class="problem" role="alert">${problem}</span>`}`;
}
