// Where the nodes of a pipeline go. Pure: a graph and a width in, places and paths out.

const NODE_HEIGHT = 54;
const ROW_GAP = 14;
const MIN_NODE = 112;
const MAX_NODE = 172;
const MIN_GAP = 34;
const WIDE_GAP = 72;
/** An edge this long has room for a rate. */
const ROOMY = 54;
const MAX_GAP = 120;
const PAD = 14;
const BACK_ROOM = 40;
/** On a phone the picture runs from top to bottom. */
const V_GAP = 34;
const V_MARGIN = 30;
const V_MIN_NODE = 84;
const V_ROW_GAP = 8;

/**
 * Lay out {nodes, edges} in `width` pixels: from left to right where the columns fit, else from top to bottom.
 *
 * Returns {width, height, vertical, nodes: [{...node, x, y, width, height}], edges, back}.
 */
export function layOut(pipeline, width) {
  const nodes = pipeline.nodes ?? [];
  const known = new Set(nodes.map(({ id }) => id));
  const edges = (pipeline.edges ?? []).filter(([from, to]) => known.has(from) && known.has(to));
  if (nodes.length === 0) return { width, height: 40, vertical: false, nodes: [], edges: [], back: null };
  const columns = columnsOf(nodes, edges);
  const across = (width - 2 * PAD - (columns.length - 1) * MIN_GAP) / columns.length;
  return across >= MIN_NODE ? horizontal(columns, edges, width) : vertical(columns, edges, width);
}

/** Each node one column behind the last of what feeds it. An edge that closes a circle is not followed. */
function columnsOf(nodes, edges) {
  const feeds = new Map(nodes.map(({ id }) => [id, []]));
  for (const [from, to] of edges) feeds.get(to).push(from);
  const depths = new Map();
  const depth = (id, path) => {
    if (depths.has(id) || path.has(id)) return depths.get(id) ?? 0;
    path.add(id);
    const own = Math.max(0, ...feeds.get(id).map((from) => depth(from, path) + 1));
    path.delete(id);
    depths.set(id, own);
    return own;
  };
  const columns = Array.from({ length: nodes.length + 1 }, () => []);
  for (const node of nodes) columns[depth(node.id, new Set())].push(node);
  while (columns.at(-1).length === 0) columns.pop();
  const last = columns.length - 1;
  // Sinks stand together at the end, however short the way to them is.
  for (let at = 0; at < last; at++) {
    const sinks = columns[at].filter(({ kind }) => kind === "sink");
    columns[at] = columns[at].filter(({ kind }) => kind !== "sink");
    columns[last].push(...sinks);
  }
  return columns.filter((column) => column.length > 0).map((column, at, all) => inOrder(column, at, all, edges));
}

/** Nodes beside those that feed them, so that edges cross little. */
function inOrder(column, at, all, edges) {
  if (at === 0 || column.length === 1) return column;
  const rank = new Map();
  all.slice(0, at).forEach((before) => before.forEach(({ id }, row) => rank.set(id, row / before.length)));
  const middle = ({ id }) => {
    const from = edges.filter(([, to]) => to === id).map(([source]) => rank.get(source) ?? 0);
    return from.length ? from.reduce((a, b) => a + b, 0) / from.length : 0;
  };
  return [...column].sort((a, b) => middle(a) - middle(b));
}

function horizontal(columns, edges, width) {
  const gaps = columns.length - 1;
  const nodeWidth = Math.min(MAX_NODE, Math.max(MIN_NODE, (width - 2 * PAD - gaps * WIDE_GAP) / columns.length));
  const gap = gaps ? Math.min(MAX_GAP, (width - 2 * PAD - columns.length * nodeWidth) / gaps) : 0;
  const left = (width - columns.length * nodeWidth - gaps * gap) / 2;
  const rows = Math.max(...columns.map((column) => column.length));
  const tall = rows * NODE_HEIGHT + (rows - 1) * ROW_GAP;
  const places = new Map();
  columns.forEach((column, at) => {
    const own = column.length * NODE_HEIGHT + (column.length - 1) * ROW_GAP;
    column.forEach((node, row) =>
      places.set(node.id, {
        ...node,
        x: left + at * (nodeWidth + gap),
        y: PAD + (tall - own) / 2 + row * (NODE_HEIGHT + ROW_GAP),
        width: nodeWidth,
        height: NODE_HEIGHT,
      }),
    );
  });
  const drawn = edges.map(([from, to]) => ({ ...across(places.get(from), places.get(to), gap), aside: isAside(to) }));
  labelOnce(drawn);
  const base = PAD + tall + BACK_ROOM - 18;
  return {
    width,
    height: base + 10,
    vertical: false,
    nodes: [...places.values()],
    edges: drawn,
    back: wayBack(columns, places, base, (at, of) => [at.x + of * at.width, at.y + at.height]),
  };
}

/** A sink that sets rows aside stands beside its dead letters: a short way along the column. */
function along(from, to, vertical) {
  const [x, y] = [from.x + from.width / 2, from.y + from.height / 2];
  const down = to.y > from.y;
  const path = vertical
    ? `M${from.x + from.width} ${y}H${to.x}`
    : `M${x} ${down ? from.y + from.height : from.y}V${down ? to.y : to.y + to.height}`;
  return { path, labelX: x, labelY: y, anchor: "middle", beforeQueue: false, straight: false, roomy: false };
}

function across(from, to, gap) {
  if (from.x === to.x) return along(from, to, false);
  const [x1, y1, x2, y2] = [from.x + from.width, from.y + from.height / 2, to.x, to.y + to.height / 2];
  // A long edge changes its row in front of the next column, so that it does not run below the nodes there.
  const turn = Math.min(x2, x1 + gap);
  const bend = (turn - x1) / 2;
  return {
    path: `M${x1} ${y1}C${x1 + bend} ${y1} ${turn - bend} ${y2} ${turn} ${y2}${turn < x2 ? `H${x2}` : ""}`,
    labelX: (x1 + x2) / 2,
    labelY: Math.min(y1, y2) - 7,
    anchor: "middle",
    beforeQueue: isBefore(from),
    straight: y1 === y2,
    roomy: x2 - x1 >= ROOMY,
  };
}

/** What is set aside is not part of the stream. */
export const isAside = (id) => id === "dead_letter";

const isBefore = ({ kind }) => kind === "collector" || kind === "source";

/** One rate in front of the queue, one behind it: more would say the same again. */
function labelOnce(edges) {
  for (const before of [true, false]) {
    const edge = edges.find((one) => one.beforeQueue === before && one.straight && one.roomy && !one.aside);
    if (edge) edge.labelled = true;
  }
}

/** The lowest sink of the last column that is part of the stream. */
function lastSink(columns, places) {
  const column = columns.at(-1);
  return places.get((column.findLast(({ id }) => !isAside(id)) ?? column.at(-1)).id);
}

function wayBack(columns, places, base, foot) {
  const first = places.get(columns[0][0].id);
  const last = lastSink(columns, places);
  if (first === last || first.kind !== "collector") return null;
  const below = [...places.values()].some((other) => other.x === last.x && other.y > last.y);
  const r = 10;
  // With something below it, the way leaves the sink at its side.
  const [x1, y1] = below ? [last.x + last.width + r, last.y + last.height / 2] : foot(last, 0.5);
  const [x2, y2] = foot(first, 0.5);
  const start = below ? `M${x1 - r + 2} ${y1}Q${x1} ${y1} ${x1} ${y1 + r}` : `M${x1} ${y1 + 2}`;
  return {
    path: `${start}V${base - r}Q${x1} ${base} ${x1 - r} ${base}H${x2 + r}Q${x2} ${base} ${x2} ${base - r}V${y2 + 6}`,
    head: `M${x2 - 4.5} ${y2 + 10}L${x2} ${y2 + 3}L${x2 + 4.5} ${y2 + 10}`,
    labelX: (x1 + x2) / 2,
    labelY: base - 6,
    anchor: "middle",
  };
}

function vertical(columns, edges, width) {
  const places = new Map();
  const room = width - PAD - V_MARGIN;
  const widest = Math.max(...columns.map((column) => column.length));
  const least = widest * V_MIN_NODE + (widest - 1) * V_ROW_GAP;
  const inner = Math.max(room, least);
  columns.forEach((column, at) => {
    const nodeWidth = Math.min(220, (inner - (column.length - 1) * V_ROW_GAP) / column.length);
    const own = column.length * nodeWidth + (column.length - 1) * V_ROW_GAP;
    column.forEach((node, row) =>
      places.set(node.id, {
        ...node,
        x: V_MARGIN + (inner - own) / 2 + row * (nodeWidth + V_ROW_GAP),
        y: PAD + at * (NODE_HEIGHT + V_GAP),
        width: nodeWidth,
        height: NODE_HEIGHT,
      }),
    );
  });
  const drawn = edges.map(([from, to]) => ({ ...down(places.get(from), places.get(to)), aside: isAside(to) }));
  labelOnce(drawn);
  const height = PAD * 2 + columns.length * NODE_HEIGHT + (columns.length - 1) * V_GAP;
  return {
    width: Math.max(width, least + PAD + V_MARGIN),
    height,
    vertical: true,
    nodes: [...places.values()],
    edges: drawn,
    back: wayUp(columns, places),
  };
}

function down(from, to) {
  if (from.y === to.y) return along(from, to, true);
  const [x1, y1, x2, y2] = [from.x + from.width / 2, from.y + from.height, to.x + to.width / 2, to.y];
  const bend = (y2 - y1) / 2;
  return {
    path: `M${x1} ${y1}C${x1} ${y1 + bend} ${x2} ${y2 - bend} ${x2} ${y2}`,
    labelX: Math.max(x1, x2) + 8,
    labelY: (y1 + y2) / 2 + 4,
    anchor: "start",
    beforeQueue: isBefore(from),
    straight: x1 === x2,
    roomy: true,
  };
}

function wayUp(columns, places) {
  const first = places.get(columns[0][0].id);
  const last = places.get(columns.at(-1)[0].id);
  if (first === last || first.kind !== "collector") return null;
  const [x, r] = [12, 10];
  const [y1, y2] = [last.y + last.height / 2, first.y + first.height / 2];
  return {
    path: `M${last.x - 2} ${y1}H${x + r}Q${x} ${y1} ${x} ${y1 - r}V${y2 + r}Q${x} ${y2} ${x + r} ${y2}H${first.x - 6}`,
    head: `M${first.x - 10} ${y2 - 4.5}L${first.x - 3} ${y2}L${first.x - 10} ${y2 + 4.5}`,
    labelX: x + 8,
    labelY: first.y + first.height + V_GAP / 2 + 4,
    anchor: "start",
  };
}
