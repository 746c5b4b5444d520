// What an operator should know of a job, worst first. Pure: a job as the API gives it in, a list of notices out.

import { count, plural, seconds } from "./format.js";

/** A healthy stream may show an id as the holder for a moment; from here on it is named. */
const HOLDS_AFTER_S = 5;
/** A batch that only waits for a checkpoint is worth a word when that takes much longer than usual. */
const WAITS_AFTER_S = 120;
/** A checkpoint is missing when it is later than both: so many seconds, so many intervals. */
const LATE_S = 60;
const LATE_INTERVALS = 10;

const HELD = {
  held: "It was refused for now and has not come again.",
  lost: "It was accepted by a process that died before it was confirmed. The collector is told to send it again.",
  gap: "Nobody ever offered it, but ids above it came.",
};

const LEVELS = ["bad", "warn", "note"];

/** The tab in which there is more about it. */
const TABS = {
  failed: "log",
  restarting: "log",
  restarts: "log",
  letters: "letters",
  collector: "sessions",
  auth: "sessions",
};

/** Everything there is to say: [{key, level, title, text, command, tab}], worst first. */
export function troublesOf(job) {
  const found = [];
  const add = (level, key, title, text = "", command = "") =>
    found.push({ level, key, title, text, command, tab: TABS[key] ?? "" });
  const status = job.status ?? {};
  sayEnd(job, add);
  if (job.state === "running" || job.state === "stopping") {
    sayFailing(status, add);
    sayConnections(status.source?.listener ?? {}, add);
    sayHolder(job.holds, add);
    sayPressure(status, add);
  }
  sayLeftovers(job, status, add);
  return found.sort((a, b) => LEVELS.indexOf(a.level) - LEVELS.indexOf(b.level));
}

/** The worst level of a job, or "good". */
export function levelOf(troubles) {
  return troubles.find(({ level }) => level !== "note")?.level ?? "good";
}

function sayEnd(job, add) {
  const error = job.last_error || "";
  if (job.state === "failed") add("bad", "failed", "The job failed", error || "Its log says why.");
  else if (job.state === "fenced") {
    add(
      "bad",
      "fenced",
      "Another process has taken the job over",
      error || "This one is silent and changes nothing any more.",
    );
  } else if (job.state === "restarting") {
    add("warn", "restarting", "The job starts again after a failure", error);
  }
}

function sayFailing(status, add) {
  const { checkpoints = {}, sinks = {}, source = {} } = status;
  const arrivals = source.arrival_log ?? {};
  if (isTime(checkpoints.failing_for_s)) {
    add(
      "bad",
      "checkpoints",
      `Checkpoints have been failing for ${seconds(checkpoints.failing_for_s)}`,
      sentence(checkpoints.last_failure) + "No ACK moves until one completes; collectors keep what they sent.",
    );
  }
  if (isTime(sinks.failing_for_s)) {
    add(
      "bad",
      "sinks",
      `A sink has been failing for ${seconds(sinks.failing_for_s)}`,
      sentence(sinks.last_failure) + "Rows wait in the queue; it is tried again by itself.",
    );
  }
  if (isTime(arrivals.failing_for_s)) {
    add(
      "bad",
      "arrivals",
      `The arrival log has been failing for ${seconds(arrivals.failing_for_s)}`,
      sentence(arrivals.last_failure) + "Conversations are closed without an answer until it can be written.",
    );
  }
  // With a reason of its own above, a late checkpoint is no news.
  const known = isTime(checkpoints.failing_for_s) || isTime(sinks.failing_for_s);
  if (!known && checkpoints.last_completed_ago_s > Math.max(LATE_S, LATE_INTERVALS * (checkpoints.interval_s ?? 0))) {
    add(
      "bad",
      "late",
      `No checkpoint has completed for ${seconds(checkpoints.last_completed_ago_s)}`,
      "The log says what is waited for: mostly a sink that does not answer.",
    );
  }
}

function sayConnections(listener, add) {
  if (listener.bind_problem) {
    add("bad", "bind", "The port cannot be opened", sentence(listener.bind_problem) + "It is tried again by itself.");
  }
  if (listener.auth_failed > 0 && !listener.sessions) {
    add(
      "warn",
      "auth",
      `${plural(listener.auth_failed, "peer")} came with a wrong token, none with the right one`,
      "Compare the collector's token with that of the job.",
    );
  }
}

function sayHolder(holds, add) {
  if (!holds) return;
  const since = holds.since_s ?? 0;
  const stuck = holds.state in HELD;
  if (since < (stuck ? HOLDS_AFTER_S : WAITS_AFTER_S)) return;
  const { text, command } = splitCommand(holds.what_to_do ?? "");
  add(
    "warn",
    `holds-${holds.id}`,
    `Batch ${plainId(holds.id)} (${holds.state}) has held the watermark for ${seconds(since)}`,
    (HELD[holds.state] ? `${HELD[holds.state]} ` : "") + sentence(text),
    command,
  );
}

/** The command at the end of "...: edgesocket settle job 5 --reason TEXT", apart from the words before it. */
export function splitCommand(what) {
  const match = /^(.*?):? (edgesocket [a-z-]+ .*)$/s.exec(what);
  return match ? { text: `${match[1]}:`, command: match[2].replace(/\.$/, "") } : { text: what, command: "" };
}

function sayPressure(status, add) {
  const queue = status.source?.queue;
  if (queue && queue.high_water_mark > 0 && queue.records >= queue.high_water_mark) {
    add(
      "warn",
      "queue",
      "The queue is at its mark",
      `${count(queue.records)} records wait. Batches are answered QUEUE_FULL, ` +
        "and the collector slows down until the sinks have caught up.",
    );
  }
  if (status.checkpoints?.large_state)
    add("note", "large", "Checkpoints are large", sentence(status.checkpoints.large_state));
}

function sayLeftovers(job, status, add) {
  const letters = job.dead_letters?.count ?? 0;
  if (letters > 0)
    add("note", "letters", `${plural(letters, "dead letter")} set aside`, "Records that could not be read or written.");
  if (job.restarts > 0) {
    const last = job.state === "running" ? sentence(job.last_error) : "";
    add("note", "restarts", `${plural(job.restarts, "restart")} after failures`, last);
  }
  const source = status.source;
  const refused = (source?.replies?.DECODE_FAILED ?? 0) + (source?.replies?.DECRYPT_FAILED ?? 0);
  if (refused > 0) {
    add(
      "note",
      "refused",
      `${plural(refused, "batch", "batches")} could not be decoded or decrypted`,
      "Compare packet mode, key and schema of collector and job.",
    );
  }
  if (job.state === "running" && source && !source.collector) {
    add("note", "collector", "No collector is connected", "Nothing new can arrive until one connects.");
  }
}

const isTime = (value) => value !== null && value !== undefined;
const plainId = (id) => String(id);

function sentence(text) {
  const plain = String(text ?? "").trim();
  if (!plain) return "";
  const first = plain[0].toUpperCase() + plain.slice(1);
  return /[.!?:]$/.test(first) ? `${first} ` : `${first}. `;
}
