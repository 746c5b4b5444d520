// The cards of one job that show figures: throughput, queue, watermark, replies.

import { between, chart, spanOf } from "./charts.js";
import { card, el, keyed, setAttr, setShown, setText } from "./dom.js";
import { bytes, count, plural, seconds, short } from "./format.js";
import { figure, meter } from "./parts.js";
import { behind } from "./selection.js";

const figures = (...all) => el("dl", { class: "figures" }, ...all.map(({ node }) => node));

/** Pixels above a chart for the number of its scale. */
const SCALE_ROOM = 17;

/** The time below a chart. update(how many samples there are). */
function timeAxis() {
  const from = el("span");
  const node = el("div", { class: "axis", "aria-hidden": "true" }, from, el("span", {}, "now"));
  return { node, update: (samples) => setText(from, `${seconds(spanOf(samples))} ago`) };
}

/** Records in, rows out. */
export function makeThroughput() {
  const received = figure("Received", "key received");
  const written = figure("Written", "key written");
  const size = figure("Bytes in");
  const lines = chart(72, ["received", "written"], "Records received and rows written", SCALE_ROOM);
  const top = el("span", { class: "scale" });
  const time = timeAxis();
  const node = card(
    "Throughput",
    "throughput",
    figures(received, written, size),
    el("div", { class: "plot" }, lines.node, top),
    time.node,
  );
  const update = (job, history) => {
    time.update(history.received.length);
    const rates = job.rates ?? {};
    const total = job.status?.rows_written;
    received.update(`${short(rates.received_records_per_s)}/s`, `${short(rates.batches_per_s)} batches/s`);
    written.update(
      `${short(rates.written_rows_per_s)}/s`,
      total === undefined ? "" : `${short(total)} since the start`,
    );
    size.update(`${bytes(rates.received_bytes_per_s)}/s`);
    const max = lines.update([history.received, history.written], { top: 1 });
    setText(top, `${short(Math.ceil(max))}/s`);
  };
  return { node, update };
}

/** How full the queue is against its mark. */
export function makeQueue() {
  const now = figure("Waiting");
  const mark = figure("Mark");
  const most = figure("Most so far");
  const bar = meter();
  const line = chart(72, ["queue"], "Records in the queue", SCALE_ROOM);
  const top = el("span", { class: "scale" });
  const time = timeAxis();
  const node = card(
    "Queue",
    "queue",
    figures(now, mark, most),
    bar.node,
    el("div", { class: "plot" }, line.node, top),
    time.node,
  );
  const update = (job, history) => {
    time.update(history.queue.length);
    const queue = job.status?.source?.queue ?? {};
    const { records = 0, high_water_mark: limit = 0 } = queue;
    const capacity = queue.capacity || limit || 1;
    const isFull = limit > 0 && records >= limit;
    setAttr(node, "data-full", isFull ? "" : null);
    now.update(
      count(queue.records),
      limit ? `${bytes(queue.bytes)} · ${Math.round((records / limit) * 100)} % of it` : "",
    );
    mark.update(count(queue.high_water_mark), limit ? `of ${count(queue.capacity)}` : "");
    most.update(count(queue.most_records));
    bar.update(
      records / capacity,
      limit / capacity,
      isFull,
      `${count(records)} records wait, the mark is at ${count(limit)}`,
    );
    // Far below the mark its line would press the curve flat.
    const near = limit > 0 && Math.max(...history.queue) > NEAR_MARK * limit;
    const max = line.update([history.queue], { top: near ? limit : 1, mark: near ? limit : null });
    setText(top, short(max));
  };
  return { node, update };
}

/** From this part of the mark on the chart of the queue shows the mark. */
const NEAR_MARK = 0.3;

const STATES = [
  ["received", "queued", "in the queue"],
  ["captured", "captured", "with the sinks, no checkpoint covers it yet"],
  ["held", "held", "refused for now"],
  ["lost", "lost", "to be sent again"],
];

/** The confirmed watermark against the highest id. */
export function makeWatermark() {
  const confirmed = figure("Confirmed up to", "key lower");
  const highest = figure("Highest id offered", "key upper");
  const far = el("span", { class: "scale" });
  const lines = between(72, "Highest id offered above the confirmed watermark", SCALE_ROOM);
  const list = el("ul", { class: "states" });
  const time = timeAxis();
  const node = card(
    "Watermark",
    "watermark",
    figures(confirmed, highest),
    el("div", { class: "plot" }, lines.node, far),
    time.node,
    list,
  );
  const update = (job, history) => {
    time.update(history.highest.length);
    const source = job.status?.source ?? {};
    const apart = behind(job);
    confirmed.update(count(source.watermark));
    highest.update(count(source.highest_offered));
    const oldest = source.oldest_unconfirmed_s;
    setText(
      far,
      apart === null ? "" : `${count(apart)} apart${oldest ? `, the oldest waits for ${seconds(oldest)}` : ""}`,
    );
    lines.update(
      history.highest,
      history.watermark,
      `Confirmed up to ${count(source.watermark)}, highest offered ${count(source.highest_offered)}`,
    );
    const batches = source.batches ?? {};
    keyed(list, STATES, ([state]) => state, makeState);
    for (const [state, view] of list.views) view.show(batches[state] ?? 0);
  };
  return { node, update };
}

function makeState([state, word, hint]) {
  const number = el("span", { class: "value" });
  const node = el("li", { class: `state ${state}`, title: `Batches ${hint}` }, number, ` ${word}`);
  const show = (many) => {
    setText(number, count(many));
    setAttr(node, "class", `state ${state}${many ? "" : " none"}`);
  };
  return { node, show, update: () => undefined };
}

/** Reply words: what each says, and whether a healthy stream has it. */
const REPLIES = {
  RECEIVED: ["accepted and queued", "good"],
  ACK: ["confirmed up to a batch", "good"],
  PENDING: ["received, not confirmed yet", "good"],
  AUTH_OK: ["authenticated", "good"],
  QUEUE_FULL: ["wait, then send again", "warn"],
  RETRY: ["send again later", "warn"],
  RESEND: ["lost or refused earlier", "warn"],
  REJECTED: ["another collector is active", "warn"],
  AUTH_FAILED: ["wrong token", "bad"],
  DECODE_FAILED: ["cannot be decoded", "bad"],
  DECRYPT_FAILED: ["cannot be decrypted", "bad"],
  BAD_REQUEST: ["not a request", "bad"],
  INVALID_PARAM: ["no batch id", "bad"],
};

/** What collectors were answered, by kind. */
export function makeReplies() {
  const body = el("tbody");
  const table = el(
    "table",
    { class: "plain replies" },
    el("caption", { class: "sr" }, "Replies by kind"),
    el(
      "thead",
      {},
      el(
        "tr",
        {},
        el("th", { scope: "col" }, "Reply"),
        el("th", { scope: "col" }, "Meaning"),
        el("th", { scope: "col", class: "number" }, "A second"),
        el("th", { scope: "col", class: "number" }, "In all"),
      ),
    ),
    body,
  );
  const none = el("p", { class: "empty small" }, "Nothing was answered yet.");
  const extra = el("p", { class: "hint" });
  const node = card("Replies", "replies", table, none, extra);
  const update = (job, history) => {
    const source = job.status?.source ?? {};
    const kinds = Object.keys(REPLIES).filter((kind) => source.replies?.[kind]);
    const others = Object.keys(source.replies ?? {}).filter((kind) => !(kind in REPLIES));
    setShown(table, kinds.length + others.length > 0);
    setShown(none, kinds.length + others.length === 0);
    keyed(body, [...kinds, ...others], (kind) => kind, makeReply);
    for (const [kind, view] of body.views) view.show(source.replies[kind], history.replyRate(kind));
    setText(extra, oddities(source).join("  ·  "));
    setShown(extra, extra.textContent !== "");
  };
  return { node, update };
}

function makeReply(kind) {
  const [meaning, level] = REPLIES[kind] ?? ["", ""];
  const bar = el(
    "span",
    { class: `reply-sign ${level}`, "aria-hidden": "true" },
    { good: "✓", warn: "!", bad: "×" }[level] ?? "·",
  );
  const rate = el("td", { class: "number" });
  const total = el("td", { class: "number" });
  const node = el(
    "tr",
    {},
    el("th", { scope: "row" }, bar, el("code", {}, kind)),
    el("td", { class: "meaning" }, meaning),
    rate,
    total,
  );
  const show = (many, perSecond) => {
    setText(rate, perSecond > 0 ? short(perSecond) : "·");
    setText(total, count(many));
  };
  return { node, show, update: () => undefined };
}

/** What no reply says. */
function oddities(source) {
  const words = [
    ["resends", "resend recognised", "resends recognised"],
    ["bad_records", "bad record"],
    ["dropped_payloads", "payload dropped", "payloads dropped"],
    ["replaced_utf8", "record with bad UTF-8", "records with bad UTF-8"],
    ["reused_ivs", "iv used twice", "ivs used twice"],
    ["repeated_ids", "id used twice", "ids used twice"],
  ];
  return words.filter(([key]) => source[key] > 0).map(([key, one, many]) => plural(source[key], one, many));
}
