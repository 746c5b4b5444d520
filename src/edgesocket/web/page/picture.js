// The picture of a pipeline: nodes in columns, rows flowing along the edges, and the way back of the confirmation.

import { bytes, count, plural, seconds, short } from "./format.js";
import { el, setAttr, setText, svg } from "./dom.js";
import { isAside, layOut } from "./picture_layout.js";

const SPEEDS = [
  [0, "still"],
  [1, "slow"],
  [200, "medium"],
  [5000, "fast"],
];

const NARROW = 136;
const TIGHT = 100;

/** The picture of one job: {node, update(job)}. It is laid out again when its box or the pipeline changes. */
export function makePicture() {
  const canvas = svg("svg", { class: "picture", role: "img", "aria-label": "Pipeline" });
  const box = el(
    "div",
    { class: "picture-box", tabindex: "0", role: "group", "aria-label": "Pipeline picture" },
    canvas,
  );
  let drawn = null;
  let shape = "";
  let last = null;
  const draw = () => {
    if (last === null || box.clientWidth === 0) return;
    const wanted = `${box.clientWidth} ${JSON.stringify(last.pipeline ?? {})}`;
    if (wanted !== shape) {
      shape = wanted;
      drawn = drawAll(canvas, layOut(last.pipeline ?? { nodes: [], edges: [] }, box.clientWidth));
    }
    drawn.update(last);
    setAttr(canvas, "aria-label", spoken(last));
  };
  new ResizeObserver(draw).observe(box);
  const update = (job) => {
    last = job;
    draw();
  };
  return { node: box, update };
}

/** The picture in words. */
export function spoken(job) {
  const names = (job.pipeline?.nodes ?? []).map(nameOf);
  const source = job.status?.source;
  const confirmed = source ? `; confirmed up to batch ${count(source.watermark)}` : "";
  return `Pipeline: ${names.join(", ")}${confirmed}`;
}

function drawAll(canvas, plan) {
  const edges = plan.edges.map(drawEdge);
  const nodes = plan.nodes.map(drawNode);
  const back = drawWayBack(plan);
  setAttr(canvas, "viewBox", `0 0 ${plan.width} ${plan.height}`);
  setAttr(canvas, "width", plan.width);
  setAttr(canvas, "height", plan.height);
  canvas.replaceChildren(
    ...edges.map((edge) => edge.node),
    ...(back ? [back.node] : []),
    ...nodes.map((node) => node.node),
  );
  const update = (job) => {
    for (const part of [...edges, ...nodes]) part.update(job);
    back?.update(job);
  };
  return { update };
}

function drawEdge(edge) {
  const flow = svg("path", { class: "flow still", d: edge.path });
  const label = svg("text", { class: "edge-label", x: edge.labelX, y: edge.labelY, "text-anchor": edge.anchor });
  const node = svg(
    "g",
    { class: edge.aside ? "edge aside" : "edge" },
    svg("path", { class: "pipe", d: edge.path }),
    flow,
    label,
  );
  const update = (job) => {
    const rates = edge.aside ? {} : (job.rates ?? {});
    const rate = (edge.beforeQueue ? rates.received_records_per_s : rates.written_rows_per_s) ?? 0;
    const [, speed] = SPEEDS.findLast(([from]) => rate > from) ?? SPEEDS[0];
    setAttr(flow, "class", `flow ${rate > 0 ? speed : "still"}`);
    setText(label, edge.labelled ? `${short(rate)}/s` : "");
  };
  return { node, update };
}

function drawNode(place) {
  const { x, y, width, height, kind } = place;
  const clip = `clip-${place.id}`.replace(/[^\w-]/g, "_");
  // In a narrow node the second line begins below the icon.
  const tight = width < TIGHT;
  const indent = width < NARROW ? 12 : 34;
  const parts = { title: svg("title"), sub: svg("text", { class: "node-sub", x: tight ? 8 : indent, y: 41 }) };
  const frame = { x: 0.5, y: 0.5, width: width - 1, height: height - 1, rx: 8 };
  const children = [parts.title, svg("rect", { class: "node-box", ...frame })];
  if (kind === "queue") {
    parts.fill = svg("rect", {
      class: "node-fill",
      x: 1,
      y: 1,
      height: height - 2,
      width: 0,
      "clip-path": `url(#${clip})`,
    });
    parts.mark = svg("line", { class: "node-mark", y1: 1, y2: height - 1 });
    children.push(svg("clipPath", { id: clip }, svg("rect", frame)), parts.fill, parts.mark);
  }
  children.push(
    ...(tight
      ? []
      : [
          svg(
            "svg",
            { class: "node-icon", x: 11, y: 11, width: 16, height: 16, viewBox: "0 0 16 16" },
            svg("use", { href: `#i-${kind}` }),
          ),
        ]),
    svg(
      "text",
      { class: "node-name", x: tight ? 8 : 34, y: 23 },
      fitted(nameOf(place), width - (tight ? 12 : 40), 7.1),
    ),
    parts.sub,
  );
  const node = svg("g", { class: `node kind-${kind}`, transform: `translate(${x} ${y})` }, ...children);
  const update = (job) => {
    const { text, hint, level } = figures(place, job);
    setText(parts.sub, fitted(text, width - indent - 8, 6.4));
    setText(parts.title, hint);
    setAttr(node, "class", `node kind-${kind} ${level}`);
    if (kind === "queue") fillQueue(parts, job.status?.source?.queue, width);
  };
  return { node, update };
}

function fillQueue(parts, queue, width) {
  const capacity = queue?.capacity || queue?.high_water_mark || 0;
  const share = capacity ? Math.min(1, queue.records / capacity) : 0;
  setAttr(parts.fill, "width", (share * (width - 2)).toFixed(1));
  const mark = capacity ? (Math.min(1, queue.high_water_mark / capacity) * (width - 3) + 1).toFixed(1) : 0;
  setAttr(parts.mark, "visibility", capacity ? "visible" : "hidden");
  for (const end of ["x1", "x2"]) setAttr(parts.mark, end, mark);
}

function nameOf({ id, label, plugin, kind }) {
  if (isAside(id)) return "Dead letters";
  const name = (kind === "source" ? plugin : label) || plugin || kind;
  return name[0].toUpperCase() + name.slice(1);
}

/** Cut a text to a width in pixels; the whole of it is in the title. */
function fitted(text, width, perChar) {
  const room = Math.floor(width / perChar);
  return text.length <= room ? text : `${text.slice(0, Math.max(1, room - 1))}…`;
}

/** The line below the name of a node, the words of its tooltip, and whether it is in trouble. */
function figures(place, job) {
  const source = job.status?.source ?? {};
  const name = nameOf(place);
  if (place.kind === "collector") {
    const { collector: peer, collector_for_s: since } = source;
    if (!peer) return { text: "not connected", hint: "No collector is connected", level: "away" };
    const hint = `Collector ${peer} is connected${since ? ` for ${seconds(since)}` : ""}`;
    return { text: place.width < NARROW ? peer.replace(/:\d+$/, "") : peer, hint, level: "good" };
  }
  if (place.kind === "source") {
    const where = source.endpoint ? `dialled: ${source.endpoint}` : `port ${source.port ?? "–"}`;
    return {
      text: where,
      hint: `${name}, ${where}, ${bytes(job.rates?.received_bytes_per_s ?? 0)} a second`,
      level: "",
    };
  }
  if (place.kind === "queue") return queueFigures(source.queue, place.width < NARROW);
  if (place.kind === "sink") return sinkFigures(place, job, name);
  return { text: place.plugin && place.plugin !== name ? place.plugin : "transform", hint: name, level: "" };
}

function queueFigures(queue, narrow) {
  if (!queue) return { text: "–", hint: "Queue", level: "" };
  const full = queue.high_water_mark > 0 && queue.records >= queue.high_water_mark;
  return {
    text: full
      ? `${short(queue.records)} · full`
      : `${short(queue.records)}${narrow ? "/" : " of "}${short(queue.high_water_mark)}`,
    hint: `${count(queue.records)} records wait, the mark is at ${count(queue.high_water_mark)}`,
    level: full ? "warn" : "",
  };
}

function sinkFigures(place, job, name) {
  const sinks = job.status?.sinks ?? {};
  if (isAside(place.id)) {
    const many = job.dead_letters?.count ?? 0;
    return { text: plural(many, "letter"), hint: `${name}: records set aside`, level: many ? "warn" : "" };
  }
  const own = sinks.each?.[place.id] ?? sinks.each?.[place.label] ?? sinks.each?.[place.plugin] ?? {};
  if (isFailing(place, job, sinks)) {
    return {
      text: `failing for ${seconds(sinks.failing_for_s)}`,
      hint: `${name} fails: ${sinks.last_failure ?? ""}`,
      level: "bad",
    };
  }
  const rows = own.rows ?? job.status?.rows_written;
  return {
    text: rows === undefined ? "sink" : `${short(rows)} rows`,
    hint: `${name}: ${count(rows)} rows written since the start`,
    level: "",
  };
}

/** What failed begins with the id of its sink. Where no sink is found by that, each may be the one. */
function isFailing({ id }, job, { failing_for_s: since, last_failure: why = "" }) {
  if (since === null || since === undefined) return false;
  const names = (job.pipeline?.nodes ?? []).filter(({ kind }) => kind === "sink").map((sink) => sink.id);
  const named = names.filter((one) => why.startsWith(`${one}:`));
  return named.length === 0 || named.includes(id);
}

function drawWayBack(plan) {
  if (!plan.back) return null;
  const label = svg("text", {
    class: "back-label",
    x: plan.back.labelX,
    y: plan.back.labelY,
    "text-anchor": plan.back.anchor,
  });
  const node = svg(
    "g",
    { class: "back" },
    svg("path", { class: "back-line", d: plan.back.path }),
    svg("path", { class: "back-head", d: plan.back.head }),
    label,
  );
  const update = (job) => {
    const source = job.status?.source;
    const figure = job.status?.checkpoints ?? {};
    const failing = figure.failing_for_s !== null && figure.failing_for_s !== undefined;
    const last = figure.last_number ? ` · checkpoint ${count(figure.last_number)}` : "";
    setText(label, source ? `ACK ${count(source.ack_number ?? source.watermark)}${plan.vertical ? "" : last}` : "");
    setAttr(node, "class", failing ? "back bad" : "back");
  };
  return { node, update };
}
