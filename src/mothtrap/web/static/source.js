/** Data of the page, from the server; the views read all data through this module. */

/** @typedef {{name: string, count: number, width: number, rows: number, location: string | null,
 *   note: string, x: Float64Array, step: Float64Array, min: Float32Array, max: Float32Array,
 *   last: Float32Array, bad: Uint8Array}} Curve */

export class SourceError extends Error {
  /** @param {string} message @param {number} status */
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

/** Read curves from the bytes of `/api/series`. @param {ArrayBuffer} buffer */
export function unpacked(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  let at = 4 + length;
  const take = (Type, count) => {
    const array = new Type(buffer, at, count);
    at += array.byteLength;
    return array;
  };
  const curves = head.curves.map((about) => {
    const count = about.count;
    const curve = {
      ...about,
      x: take(Float64Array, count), step: take(Float64Array, count), min: take(Float32Array, count),
      max: take(Float32Array, count), last: take(Float32Array, count), bad: take(Uint8Array, count),
    };
    at += -at & 7;
    return curve;
  });
  return { ...head, curves };
}

export class HttpSource {
  live = true;

  /** @param {string} path @param {Record<string, unknown>} parameters @param {AbortSignal} [signal] */
  async #get(path, parameters, signal) {
    const query = new URLSearchParams();
    for (const [name, given] of Object.entries(parameters)) {
      for (const each of Array.isArray(given) ? given : [given]) {
        if (each !== undefined && each !== null && each !== "") query.append(name, String(each));
      }
    }
    let answer;
    try {
      answer = await fetch(`./api/${path}?${query}`, { signal });
    } catch (error) {
      if (error instanceof DOMException) throw error;
      throw new SourceError("The server does not answer. Is `mothtrap ui` still running?", 0);
    }
    if (!answer.ok) throw await refused(answer);
    return answer;
  }

  async #json(path, parameters, signal) {
    return (await this.#get(path, parameters, signal)).json();
  }

  runs(begin, query, signal, sort = "") { return this.#json("runs", { begin, query, sort }, signal); }
  run(run, signal) { return this.#json("run", { run }, signal); }
  findings(run, signal) { return this.#json("findings", { run }, signal); }
  /** A logged item: text, or an object if it is JSON. */
  async item(run, number, json, signal) {
    const answer = await this.#get("item", { run, number }, signal);
    return json ? answer.json() : answer.text();
  }
  itemUrl(run, number) { return `./api/item?${new URLSearchParams({ run, number: String(number) })}`; }
  figureUrl(run, number) { return `./figure/${number}?${new URLSearchParams({ run })}`; }
  csvUrl(query) { return `./api/runs.csv?${new URLSearchParams({ query })}`; }

  /** Ask an address about a run. @param {string} what @param {string} run
   * @param {Record<string, unknown>} wish @param {AbortSignal} signal */
  json(what, run, wish, signal) { return this.#json(what, { run, ...wish }, signal); }
  async bytes(what, run, wish, signal) {
    return (await this.#get(what, { run, ...wish }, signal)).arrayBuffer();
  }

  /** @param {{name: string[], from?: number, to?: number, px?: number, x?: string}} wish */
  async series(run, wish, signal) {
    return unpacked(await (await this.#get("series", { run, ...wish }, signal)).arrayBuffer());
  }

  async compare(runs, name, px, signal) {
    return unpacked(await (await this.#get("compare", { run: runs, name, px }, signal)).arrayBuffer());
  }

  /** Send a request to a running job. */
  async control(run, what, body) {
    const answer = await fetch(`./api/control/${what}?run=${encodeURIComponent(run)}`, {
      method: "POST", body: JSON.stringify(body), headers: { "X-Mothtrap": "1" },
    });
    if (!answer.ok) throw await refused(answer);
    return answer.json();
  }

  /** Hear of changes. @param {string} run "" = of the list of runs
   * @param {string} cursor of what is known @param {(kind: string, data: any) => void} told
   * @returns {() => void} ends it */
  follow(run, cursor, told) {
    const query = run ? `?${new URLSearchParams({ run, cursor })}` : "";
    const events = new EventSource(`./api/events${query}`);
    for (const kind of ["step", "finding", "state", "problem"]) {
      events.addEventListener(kind, (event) => told(kind, JSON.parse(event.data)));
    }
    events.onopen = () => told("open", null);
    events.onerror = () => told("lost", null);
    return () => events.close();
  }
}

/** @param {Response} answer */
async function refused(answer) {
  const text = await answer.text();
  try {
    return new SourceError(JSON.parse(text).error, answer.status);
  } catch {
    return new SourceError(text || `The server answered ${answer.status}.`, answer.status);
  }
}
