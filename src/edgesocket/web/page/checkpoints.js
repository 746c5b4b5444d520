// Checkpoints on a line of time, and the newest of them as a table.

import { card, el, keyed, setAttr, setShown, setText, svg } from "./dom.js";
import { ago, bytes, clock, count, seconds } from "./format.js";
import { figure } from "./parts.js";

const WIDTH = 640;
const HEIGHT = 72;
const FLOOR = HEIGHT - 1;
const MIN_BAR = 5;
/** Above the highest bar: the number of the scale, and the crosses of what failed. */
const SCALE_ROOM = 20;
const ROWS = 8;

/** The card: {node, update(job, history, figures)}. */
export function makeCheckpoints() {
  const last = figure("Last completed");
  const took = figure("Took");
  const size = figure("State");
  const failed = figure("Failed");
  const canvas = svg(
    "svg",
    { class: "timeline", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" },
    svg("line", { class: "timeline-floor", x1: 0, x2: WIDTH, y1: FLOOR, y2: FLOOR }),
  );
  const bars = svg("g");
  canvas.append(bars);
  const from = el("span");
  const scale = el("span", { class: "scale" });
  const table = makeTable();
  const none = el("p", { class: "empty small" }, "No checkpoint has ended yet.");
  const timeline = el(
    "div",
    {},
    el("div", { class: "plot timeline-plot" }, canvas, scale),
    el("div", { class: "axis", "aria-hidden": "true" }, from, el("span", {}, "now")),
    table.node,
  );
  const node = card(
    "Checkpoints",
    "checkpoints",
    el("dl", { class: "figures" }, last.node, took.node, size.node, failed.node),
    none,
    timeline,
  );
  const update = (job, _history, figures) => {
    const now = job.status?.checkpoints;
    last.update(now?.last_number ? `${count(now.last_number)}` : "–", now ? ago(now.last_completed_ago_s) : "");
    took.update(now?.last_number ? seconds(now.last_duration_s) : "–");
    size.update(now?.last_number ? bytes(now.last_state_bytes) : "–");
    failed.update(now ? count(now.failed) : "–", now ? `${count(now.completed)} completed` : "");
    const records = job.checkpoints ?? [];
    setShown(none, records.length === 0);
    setShown(timeline, records.length > 0);
    if (records.length === 0) return;
    const time = figures.time * 1000;
    const longest = drawBars(bars, records, time);
    setText(from, ago((time - records[0].started_ms) / 1000));
    setText(scale, seconds(longest));
    setAttr(canvas, "aria-label", inWords(records));
    table.update(records, time);
  };
  return { node, update };
}

function inWords(records) {
  const bad = records.filter(({ status }) => status === "failed").length;
  return `The last ${records.length} checkpoints; ${bad} failed`;
}

function drawBars(parent, records, time) {
  const first = records[0].started_ms;
  const span = Math.max(1000, time - first);
  const longest = Math.max(0.001, ...records.map(({ duration_s: s }) => s));
  // Bars get thinner before they would hide each other.
  const width = Math.max(2, Math.min(8, (WIDTH / records.length) * 0.7));
  keyed(
    parent,
    records,
    ({ number, started_ms: at, status }) => `${number} ${at} ${status}`,
    () => makeBar(),
  );
  const views = [...parent.views.values()];
  records.forEach((record, at) => {
    const left = Math.min(WIDTH - width, ((record.started_ms - first) / span) * WIDTH);
    views[at].place(left, width, Math.max(MIN_BAR, (record.duration_s / longest) * (HEIGHT - SCALE_ROOM)), record);
  });
  return longest;
}

function makeBar() {
  const title = svg("title");
  const bar = svg("rect", { class: "bar" });
  const cross = svg("path", { class: "bar-cross" });
  const node = svg("g", {}, title, bar, cross);
  const place = (left, width, tall, record) => {
    const bad = record.status === "failed";
    setAttr(bar, "x", left.toFixed(1));
    setAttr(bar, "width", width.toFixed(1));
    setAttr(bar, "y", (FLOOR - tall).toFixed(1));
    setAttr(bar, "height", tall.toFixed(1));
    setAttr(node, "class", bad ? "bar-group failed" : "bar-group");
    const [x, y] = [left + width / 2, FLOOR - tall - 6];
    setAttr(cross, "d", bad ? `M${x - 3} ${y - 3}l6 6m0 -6l-6 6` : "");
    const why = record.reason ? `: ${record.reason}` : "";
    const when = `${clock(record.started_ms)}, ${seconds(record.duration_s)}`;
    setText(title, `Checkpoint ${record.number} ${record.status}, ${when}${why}`);
  };
  return { node, place, update: () => undefined };
}

function makeTable() {
  const body = el("tbody");
  const heads = ["Number", "Began", "Took", "State", "How it ended"].map((title, at) =>
    el("th", { scope: "col", class: at === 4 ? null : "number" }, title),
  );
  const node = el(
    "details",
    { class: "fold" },
    el("summary", {}, "As a table"),
    el(
      "div",
      { class: "scroll", tabindex: "0", role: "group", "aria-label": "Newest checkpoints" },
      el("table", { class: "plain" }, el("thead", {}, el("tr", {}, ...heads)), body),
    ),
  );
  const update = (records, time) => {
    if (!node.open) return;
    const newest = records.slice(-ROWS).reverse();
    keyed(
      body,
      newest,
      ({ number, started_ms: at }) => `${number} ${at}`,
      (record) => {
        const how = record.status === "failed" ? `failed: ${record.reason}` : "completed";
        const row = el(
          "tr",
          {},
          el("th", { scope: "row", class: "number" }, count(record.number)),
          el("td", { class: "number" }, clock(record.started_ms, time)),
          el("td", { class: "number" }, seconds(record.duration_s)),
          el("td", { class: "number" }, bytes(record.state_bytes)),
          el("td", { class: record.status === "failed" ? "bad" : "" }, how),
        );
        return { node: row, update: () => undefined };
      },
    );
  };
  return { node, update };
}
