/** Desktop notices of findings that appear while the job runs and the page is open. */
import { useEffect, useRef, useState } from "preact/hooks";
import { findingsAnswer, runAnswer, unitOf } from "../data.js";
import { named, number } from "../format.js";
import { html } from "../html.js";
import { run } from "../state.js";

const isKnown = () => typeof Notification !== "undefined";

/** A button that asks for permission; afterwards, new errors and warnings are shown as notices. */
export function Alerts() {
  const [permission, setPermission] = useState(isKnown() ? Notification.permission : "denied");
  const heard = useRef({ run: "", known: null });
  const found = findingsAnswer.value.value;
  const state = runAnswer.value.value?.state;
  useEffect(() => {
    if (!found) return;
    const before = heard.current.run === run.value ? heard.current.known : null;
    const fingerprints = new Set(Object.keys(found.findings));
    heard.current = { run: run.value, known: fingerprints };
    if (before === null || permission !== "granted") return;
    for (const { finding } of Object.values(found.findings)) {
      if (finding.severity !== "info" && !before.has(finding.fingerprint)) tell(finding);
    }
  }, [found, permission]);
  if (state !== "running" || permission !== "default") return null;
  return html`<button onClick=${async () => setPermission(await Notification.requestPermission())}
    title="Show a desktop notice for each new error or warning of this run while the page is open">Notify me</button>`;
}

function tell(finding) {
  const notice = new Notification(`${named(finding)} since ${unitOf()} ${number(finding.step)}`,
    { body: `${run.value}: ${finding.message}`, tag: finding.fingerprint });
  notice.onclick = () => window.focus();
}
