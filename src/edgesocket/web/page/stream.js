// The live figures: one stream, opened again whenever it ends.

import { askForToken, forgetToken, hasToken, send } from "./api.js";
import { readEvents } from "./events.js";
import { parseJson } from "./format.js";

/** Without an event for this long the connection counts as dead: the server sends one a second. */
export const SILENT_MS = 6000;
const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 10_000;

/**
 * Keeps the stream open.
 *
 * `onFigures(figures)` gets each set; `onPhase({name, since, retryAt, reason})` is told of each change: "connecting"
 * before the first figures, "live", "stale" (since: when the last figures came), "refused" (no token: nothing is tried
 * until `retryNow`).
 */
export class Stream {
  #onFigures;
  #onPhase;
  #failures = 0;
  #lastAt = null;
  #abort = null;
  #timer = null;
  #watch = null;

  constructor(onFigures, onPhase) {
    this.#onFigures = onFigures;
    this.#onPhase = onPhase;
  }

  /** Begin, and never end. */
  start() {
    addEventListener("online", () => this.retryNow());
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden && this.#timer !== null) this.retryNow();
    });
    this.#open();
  }

  /** Try at once instead of when the pause is over. Does nothing while a connection is open. */
  retryNow() {
    if (this.#abort !== null) return;
    clearTimeout(this.#timer);
    this.#timer = null;
    this.#open();
  }

  async #open() {
    const abort = (this.#abort = new AbortController());
    let reason = "the stream ended";
    try {
      this.#guard(abort);
      const response = await send("api/stream", { signal: abort.signal });
      await readEvents(response, (event) => this.#take(event, abort));
    } catch (error) {
      reason = error.name === "AbortError" ? "the server fell silent" : error.message;
      if (error.status === 401) return void this.#refused();
    } finally {
      clearTimeout(this.#watch);
      this.#abort = null;
    }
    this.#wait(reason);
  }

  #take(event, abort) {
    this.#guard(abort);
    if (event.name !== "jobs") return;
    const figures = parseJson(event.data);
    this.#failures = 0;
    this.#lastAt = Date.now();
    this.#onPhase({ name: "live", since: this.#lastAt });
    this.#onFigures(figures);
  }

  #guard(abort) {
    clearTimeout(this.#watch);
    this.#watch = setTimeout(() => abort.abort(), SILENT_MS);
  }

  #wait(reason) {
    const longest = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** this.#failures++);
    const wait = longest * (0.75 + Math.random() / 4); // many pages of one server shall not come back in one moment
    const name = this.#lastAt === null ? "connecting" : "stale";
    this.#onPhase({ name, since: this.#lastAt, retryAt: Date.now() + wait, reason });
    this.#timer = setTimeout(() => this.retryNow(), wait);
  }

  async #refused() {
    const why = hasToken()
      ? "The server did not accept this token."
      : "This server shows its jobs to those who have its token.";
    forgetToken();
    this.#onPhase({ name: "refused", since: this.#lastAt, reason: "this server wants a token" });
    if (await askForToken(why)) this.retryNow();
  }
}
