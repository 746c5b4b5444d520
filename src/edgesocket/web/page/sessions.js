// Who was connected, since when, and why each went.

import { el, keyed, setAttr, setShown, setText } from "./dom.js";
import { bytes, clock, count, seconds } from "./format.js";

/** The tab: {node, show, hide, update(job, figures)}. */
export function makeSessions() {
  const body = el("tbody");
  const heads = [["Collector"], ["Connected", 1], ["Lasted", 1], ["Received", 1], ["How it ended"]];
  const table = el(
    "table",
    { class: "plain" },
    el("caption", { class: "sr" }, "Collector sessions, newest first"),
    el(
      "thead",
      {},
      el(
        "tr",
        {},
        ...heads.map(([title, number]) => el("th", { scope: "col", class: number ? "number" : null }, title)),
      ),
    ),
    body,
  );
  const none = el("p", { class: "empty small" }, "No collector has connected yet.");
  const facts = el("p", { class: "hint" });
  const node = el(
    "div",
    {},
    el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Sessions" }, table),
    none,
    facts,
  );
  const update = (job, figures) => {
    const sessions = (job.sessions ?? []).toReversed();
    setShown(table, sessions.length > 0);
    setShown(none, sessions.length === 0);
    keyed(body, sessions, ({ peer, connected_ms: at }) => `${peer} ${at}`, makeSession);
    for (const session of sessions)
      body.views.get(`${session.peer} ${session.connected_ms}`).show(session, figures.time * 1000);
    setText(facts, listenerFacts(job.status?.source?.listener ?? {}));
  };
  return { node, update, show: () => undefined, hide: () => undefined };
}

function listenerFacts(listener) {
  const words = [
    ["auth_failed", "with a wrong token"],
    ["auth_timed_out", "without a token in time"],
    ["peers_rejected", "rejected, as one was active"],
    ["peers_not_allowed", "not on the allow list"],
    ["tls_failed", "failed at TLS"],
    ["tls_mismatches", "with and without TLS mixed up"],
    ["waiting_peers", "waiting for their turn"],
  ];
  return words
    .filter(([key]) => listener[key] > 0)
    .map(([key, word]) => `${count(listener[key])} ${word}`)
    .join("  ·  ");
}

function makeSession() {
  const peer = el("th", { scope: "row" });
  const [since, lasted, size] = [1, 2, 3].map(() => el("td", { class: "number" }));
  const end = el("td");
  const node = el("tr", {}, peer, since, lasted, size, end);
  const show = (session, now) => {
    const open = session.ended_ms === null || session.ended_ms === undefined;
    setText(peer, session.peer);
    setText(since, clock(session.connected_ms, now));
    setText(lasted, seconds(((open ? now : session.ended_ms) - session.connected_ms) / 1000));
    setText(size, open && !session.received_bytes ? "–" : bytes(session.received_bytes)); // counted when it has ended
    setText(end, open ? "● connected" : session.reason || "ended");
    setAttr(end, "class", open ? "good" : null);
  };
  return { node, show, update: () => undefined };
}
