/** Answers of the source for one component. */
import { useEffect, useRef, useState } from "preact/hooks";

/** Ask when the subject or the tick changes; meanwhile, the old answer about the same subject stays.
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

/** The latest value, as long as the subject is the same, so that nothing flickers while the
 * next value is requested. @template T @param {T | null} now @param {string} subject */
export function useKept(now, subject) {
  const kept = useRef({ subject, value: null });
  if (now) kept.current = { subject, value: now };
  return kept.current.subject === subject ? kept.current.value : null;
}
