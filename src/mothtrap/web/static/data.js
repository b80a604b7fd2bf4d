/** Answers of the source, as signals: an old answer stays until the new answer arrives. */
import { computed, effect, signal } from "@preact/signals";
import { HttpSource } from "./source.js";
import { run } from "./state.js";

export const source = new HttpSource();

/** State of the run, from the latest event. */
export const seen = signal(null);
/** "open", "lost" or "gone": the connection to the server. */
export const connection = signal("open");
/** Counters that grow with events: data that depends on one is requested again. */
export const ticks = { step: signal(0), finding: signal(0), runs: signal(0) };

const NOTHING = { value: null, error: null, loading: true };

/** An answer: `{value, error, loading}`. `ask` reads signals, and is called again when one of them changes.
 * Meanwhile, answers about another subject are not shown.
 * @template T @param {(signal: AbortSignal) => Promise<T> | null} ask @param {() => string} about */
export function answer(ask, about = () => run.value) {
  const found = signal(NOTHING);
  let subject = "";
  const stop = effect(() => {
    const controller = new AbortController();
    if (about() !== subject) {
      subject = about();
      found.value = NOTHING;
    }
    const asked = ask(controller.signal);
    if (asked === null) {
      found.value = { value: null, error: null, loading: false };
      return () => {};
    }
    asked.then(
      (value) => { if (!controller.signal.aborted) found.value = { value, error: null, loading: false }; },
      (error) => {
        if (!controller.signal.aborted) found.value = { value: found.peek().value, error, loading: false };
      });
    return () => controller.abort();
  });
  return { found, stop };
}

/** Grows with every tenth step: for what changes little. */
export const slowly = computed(() => Math.floor(ticks.step.value / 10));

/** The facts and findings of the displayed run. */
export const runAnswer = answer((signal) => {
  ticks.finding.value;
  slowly.value;
  return run.value ? source.run(run.value, signal).then(
    (about) => ({ ...about, heard: performance.now() })) : null;
}).found;
/** The word for a step of the run: `step`, or `round` for boosted trees. */
export const unitOf = () => runAnswer.value.value?.unit ?? "step";
export const findingsAnswer = answer((signal) => {
  ticks.finding.value;
  return run.value ? source.findings(run.value, signal) : null;
}).found;
/** The findings that are worse than notes. */
export const problems = () => Object.values(findingsAnswer.value.value?.findings ?? {})
  .map((each) => each.finding).filter((each) => each.severity !== "info");

/** Whether the first answers have arrived: events continue from their cursor. */
const ready = computed(() =>
  !run.value || !(runAnswer.value.loading || findingsAnswer.value.loading));

/** The cursor of both answers; "" if they differ, so that an event comes immediately. */
function cursor() {
  const known = runAnswer.peek().value?.cursor ?? "";
  return known === findingsAnswer.peek().value?.cursor ? known : "";
}

let followed = null;
effect(() => {
  const name = run.value;
  seen.value = null;
  followed?.();
  followed = null;
  if (!ready.value) return;
  followed = source.follow(name, name && cursor(), (kind, data) => {
    if (kind === "open") connection.value = "open";
    else if (kind === "lost") connection.value = "lost";
    else if (kind === "problem") { connection.value = "gone"; seen.value = data; }
    else {
      connection.value = "open";
      seen.value = { ...data, heard: performance.now() };
      if (!name) ticks.runs.value += 1;
      else {
        ticks.step.value += 1;
        if (kind !== "step") ticks.finding.value += 1;
      }
    }
  });
});
