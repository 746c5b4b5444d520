// One row of the list of jobs.

import { chart } from "./charts.js";
import { el, icon, setAttr, setText } from "./dom.js";
import { ago, count, short } from "./format.js";
import { meter, stateBadge } from "./parts.js";
import { isAside } from "./picture_layout.js";
import { jobRoute } from "./route.js";
import { behind, queueShare } from "./selection.js";

/** Checkpoints that are shown as dots. */
const DOTS = 10;
/** The small lines show the last minute. */
const SPARK_SAMPLES = 60;

/** A row: {node, update(job as `judged` gives it)}. */
export function makeRow(histories) {
  const badge = stateBadge();
  const link = el("a", { class: "job-link" });
  const below = el("div", { class: "job-below" });
  const received = rateCell("received", "Received");
  const written = rateCell("written", "Written");
  const queue = queueCell();
  const lag = cell("behind", "Not confirmed");
  const checkpoints = checkpointCell();
  const peer = cell("peer", "Collector");
  const node = el(
    "tr",
    {},
    el("th", { scope: "row", class: "cell-name" }, el("div", { class: "job-name" }, link, badge.node), below),
    received.node,
    written.node,
    queue.node,
    lag.node,
    checkpoints.node,
    peer.node,
  );
  // The whole row may be clicked; the link in it is what keyboards and screen readers use.
  node.addEventListener("click", (event) => {
    if (!event.target.closest("a, button") && getSelection().isCollapsed) location.hash = jobRoute(link.textContent);
  });
  const update = ({ job, troubles, level }) => {
    const history = histories.of(job.name);
    setAttr(node, "class", `job-row ${level}`);
    badge.update(job.state, level);
    setText(link, job.name);
    setAttr(link, "href", jobRoute(job.name));
    sayBelow(below, job, troubles, level);
    received.update(job.rates?.received_records_per_s, history.received);
    written.update(job.rates?.written_rows_per_s, history.written);
    queue.update(job);
    lag.update(count(behind(job)));
    checkpoints.update(job);
    peer.update(job.status?.source?.collector || (job.status?.source ? "none" : "–"));
  };
  return { node, update };
}

function sayBelow(node, job, troubles, level) {
  const first = troubles[0];
  const plain = level === "good" || !first;
  setAttr(node, "class", `job-below ${plain ? "" : level}`);
  const text = plain ? wayOf(job) : first.key === "failed" ? `${first.title}: ${first.text}` : first.title;
  if (node.dataset.said === `${level} ${text}`) return;
  node.dataset.said = `${level} ${text}`;
  setAttr(node, "title", text); // the line may be cut
  node.replaceChildren(...(plain ? [] : [icon(level)]), el("span", {}, text));
}

/** "EdgeSocket → Sql → LocalFile, Kafka". */
function wayOf(job) {
  const named = (kind) =>
    (job.pipeline?.nodes ?? [])
      .filter((node) => node.kind === kind && !isAside(node.id))
      .map(({ label, plugin }) => label || plugin);
  const source = (job.pipeline?.nodes ?? []).find(({ kind }) => kind === "source")?.plugin;
  return [source, ...named("transform"), named("sink").join(", ")].filter(Boolean).join(" → ");
}

function cell(name, label) {
  const value = el("span", { class: "value" });
  return {
    node: el("td", { class: `cell-${name}`, "data-label": label }, value),
    update: (text) => setText(value, text),
  };
}

function rateCell(name, label) {
  const value = el("span", { class: "value" });
  const line = chart(22, [name], `${label} over the last minute`);
  const node = el("td", { class: `cell-${name}`, "data-label": label }, el("div", { class: "rate" }, line.node, value));
  const update = (rate, values) => {
    setText(value, rate === undefined ? "–" : `${short(rate)}/s`);
    line.update([values.slice(-SPARK_SAMPLES)], { top: 1, span: SPARK_SAMPLES });
  };
  return { node, update };
}

function queueCell() {
  const bar = meter();
  const value = el("span", { class: "value" });
  const node = el(
    "td",
    { class: "cell-queue", "data-label": "Queue" },
    el("div", { class: "queue-cell" }, bar.node, value),
  );
  const update = (job) => {
    const queue = job.status?.source?.queue;
    const share = queueShare(job);
    const capacity = queue?.capacity || queue?.high_water_mark || 1;
    bar.update(
      (queue?.records ?? 0) / capacity,
      (queue?.high_water_mark ?? 0) / capacity,
      share >= 1,
      queue ? `Queue: ${count(queue.records)} of ${count(queue.high_water_mark)} records` : "No queue",
    );
    setText(value, queue ? `${Math.round(share * 100)} %` : "–");
  };
  return { node, update };
}

function checkpointCell() {
  const dots = el("span", { class: "dots", "aria-hidden": "true" });
  const value = el("span", { class: "value" });
  const node = el(
    "td",
    { class: "cell-checkpoints", "data-label": "Checkpoints" },
    el("div", { class: "checkpoint-cell" }, dots, value),
  );
  const update = (job) => {
    const last = (job.checkpoints ?? []).slice(-DOTS);
    const said = last.map(({ number, status }) => `${number}${status}`).join();
    if (dots.dataset.said !== said) {
      dots.dataset.said = said;
      dots.replaceChildren(
        ...last.map(({ status }) =>
          el("i", { class: status === "failed" ? "dot failed" : "dot" }, status === "failed" ? "×" : ""),
        ),
      );
    }
    const figures = job.status?.checkpoints;
    const failing = figures?.failing_for_s !== null && figures?.failing_for_s !== undefined;
    setText(value, failing ? "failing" : figures ? ago(figures.last_completed_ago_s) : "–");
  };
  return { node, update };
}
