/** Parts that most views are made of: answers, notices, tables. */
import { useEffect, useRef, useState } from "preact/hooks";
import { source, ticks } from "../data.js";
import { html } from "../html.js";
import { run } from "../state.js";

/** Ask when the subject or the tick changes; the old answer of the same subject stays meanwhile.
 * @template T @param {(signal: AbortSignal) => Promise<T> | null} ask @param {string} subject
 * @param {unknown} [tick] */
export function useAnswer(ask, subject, tick = 0) {
  const [found, setFound] = useState({ value: null, error: null, loading: true, subject });
  useEffect(() => {
    const controller = new AbortController();
    const asked = ask(controller.signal);
    if (asked === null) {
      setFound({ value: null, error: null, loading: false, subject });
      return () => {};
    }
    asked.then(
      (value) => { if (!controller.signal.aborted) setFound({ value, error: null, loading: false, subject }); },
      (error) => {
        if (controller.signal.aborted) return;
        setFound((before) => ({ value: before.subject === subject ? before.value : null, error,
          loading: false, subject }));
      });
    return () => controller.abort();
  }, [subject, tick]);
  return found.subject === subject ? found : { value: null, error: null, loading: true, subject };
}

/** The latest value that was there, as long as the subject is the same: nothing flickers while the
 * next one is asked for. @template T @param {T | null} now @param {string} subject */
export function useKept(now, subject) {
  const kept = useRef({ subject, value: null });
  if (now) kept.current = { subject, value: now };
  return kept.current.subject === subject ? kept.current.value : null;
}

/** Ask an address about the run, or about others; a wish of null asks nothing.
 * @param {string} what @param {object | null} wish @param {unknown} [tick] @param {string | string[]} [of] */
export const useJson = (what, wish, tick, of = run.value) => useAnswer((signal) =>
  (wish ? source.json(what, of, wish, signal) : null), JSON.stringify([what, of, wish]), tick);

/** Ask for curves of the run. @param {{name: string[]}} wish also of `HttpSource.series` @param {unknown} [tick] */
export const useSeries = (wish, tick = ticks.step.value) => useAnswer((signal) =>
  (wish.name.length ? source.series(run.value, wish, signal) : null), JSON.stringify([run.value, wish]), tick);

/** The names of all curves and tensors of the run. */
export const useNames = () => useJson("names", {}, ticks.finding.value);

/** @param {{error: Error | null, loading: boolean, value: unknown}} found */
export function Notice({ found, what }) {
  if (found.error) return html`<p class="notice problem" role="alert">${found.error.message}</p>`;
  if (found.loading && !found.value) return html`<p class="notice" role="status">Reading ${what} …</p>`;
  return null;
}

/** @param {{children: unknown}} props */
export const Empty = ({ children }) => html`<p class="notice empty">${children}</p>`;

/** A part that scrolls, also by keys. @param {{label: string, also?: string, children: unknown}} props */
export const Scroll = ({ label, also = "", children }) => html`<div class="scroll ${also}" tabindex="0"
  role="region" aria-label=${label}>${children}</div>`;

/** Headings of the columns of a table. @param {string[]} names @param {string} [of] their class */
export const heads = (names, of) => names.map((each) => html`<th scope="col" key=${each} class=${of}>${each}</th>`);

/** A list with a member more, or less where it was there. @template T @param {T[]} list @param {T} one */
export const toggled = (list, one) => (list.includes(one) ? list.filter((each) => each !== one) : [...list, one]);
