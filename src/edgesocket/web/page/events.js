// Server-sent events through fetch: EventSource cannot send a bearer token.

const MAX_PENDING_CHARS = 64 * 1024 * 1024;

/** Cuts text, in whatever pieces it comes, into events {name, data}. */
export class EventParser {
  #pending = "";

  /** Take the next piece; returns the events that are complete now. */
  push(text) {
    this.#pending += text;
    if (this.#pending.length > MAX_PENDING_CHARS) throw new Error("an event of the server is too large");
    const events = [];
    // A CR at the end may be half of a CR LF, so it waits for the next piece.
    const held = this.#pending.endsWith("\r") ? 1 : 0;
    const blocks = this.#pending
      .slice(0, this.#pending.length - held)
      .replace(/\r\n?/g, "\n")
      .split("\n\n");
    this.#pending = blocks.pop() + (held ? "\r" : "");
    for (const block of blocks) {
      const event = parseBlock(block);
      if (event) events.push(event);
    }
    return events;
  }
}

function parseBlock(block) {
  let name = "message";
  const data = [];
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    if (colon === 0) continue; // a comment keeps the connection open
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "data") data.push(value);
    else if (field === "event") name = value;
  }
  return data.length ? { name, data: data.join("\n") } : null;
}

/**
 * Read events from the body of a response until it ends.
 *
 * Raises what fetch raises when the connection breaks or is aborted.
 */
export async function readEvents(response, onEvent) {
  const parser = new EventParser();
  const decoder = new TextDecoder();
  const reader = response.body.getReader();
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    for (const event of parser.push(decoder.decode(value, { stream: true }))) onEvent(event);
  }
}
