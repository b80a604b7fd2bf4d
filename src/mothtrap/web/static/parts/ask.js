/** Buttons that request a change from the server, and show the result. */
import { useState } from "preact/hooks";
import { source, ticks } from "../data.js";
import { html } from "../html.js";
import { run, spoken } from "../state.js";

/** @param {{what: string, body: object, children: unknown, sure?: string,
 *   done?: ((answer: any) => void) | null, shows?: boolean, waits?: string}} props `sure`: a question
 *   that a second click answers; `done`: gets the answer; `shows`: it is also
 *   written beside the button */
export function Ask({ what, body, children, sure = "", done = null, shows = false, waits = "Waiting …" }) {
  const [asked, setAsked] = useState(false);
  const [problem, setProblem] = useState("");
  const [said, setSaid] = useState("");
  const [waiting, setWaiting] = useState(false);
  const act = async () => {
    if (sure && !asked) return setAsked(true);
    setWaiting(true);
    setProblem("");
    setSaid("");
    try {
      const answer = await source.control(run.value, what, body);
      spoken.value = answer.message ?? "done";
      setSaid(answer.message ?? "");
      ticks.finding.value += 1;
      done?.(answer);
    } catch (error) {
      setProblem(error.message);
    }
    setWaiting(false);
    return setAsked(false);
  };
  return html`<button onClick=${act} disabled=${waiting} onBlur=${() => setAsked(false)}>
    ${waiting ? waits : asked ? sure : children}</button>
    ${shows && said && html`<span class="muted">${said}</span>`}
    ${problem && html`<span class="problem" role="alert">${problem}</span>`}`;
}
