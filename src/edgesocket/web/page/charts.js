// Small charts. Each is one SVG that stretches with its box; words and scales beside it are HTML.

import { SAMPLES } from "./history.js";
import { setAttr, svg } from "./dom.js";

const WIDTH = 300;

/** How many samples the width stands for: a young history is drawn wide, until it is as long as can be kept. */
export const spanOf = (length) => Math.min(SAMPLES, Math.max(30, length));

const xOf = (length, span) => (at) => WIDTH - ((length - 1 - at) * WIDTH) / (span - 1);

function linePath(values, x, y) {
  let path = "";
  for (let at = 0; at < values.length; at++) path += `${at ? "L" : "M"}${x(at).toFixed(1)} ${y(values[at]).toFixed(1)}`;
  return path;
}

const areaPath = (line, x, height) => (line ? `${line}L${WIDTH} ${height}L${x(0).toFixed(1)} ${height}Z` : "");

/**
 * A chart of the last minutes. `lines` are class names, the first one drawn as an area too; `room` pixels above the
 * highest value are left for the number of the scale.
 *
 * `update([values, ...], {top, mark, span})`: `top` is the least height of the scale; `mark` draws a dashed line there.
 * Returns {node, update}; update returns the top of the scale.
 */
export function chart(height, lines, label, room = 2) {
  const area = svg("path", { class: `area ${lines[0]}` });
  const markLine = svg("line", { class: "mark-line", x1: 0, x2: WIDTH, visibility: "hidden" });
  const paths = lines.map((name) => svg("path", { class: `line ${name}` }));
  const node = svg(
    "svg",
    {
      class: "chart",
      viewBox: `0 0 ${WIDTH} ${height}`,
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": label,
    },
    area,
    markLine,
    ...paths,
  );
  const update = (series, { top = 0, mark = null, span = spanOf(series[0].length) } = {}) => {
    const x = xOf(series[0].length, span);
    let max = top;
    for (const values of series) for (const value of values) if (value > max) max = value;
    const y = (value) => height - 1.5 - (max > 0 ? (value / max) * (height - 2 - room) : 0);
    series.forEach((values, at) => setAttr(paths[at], "d", linePath(values, x, y)));
    setAttr(area, "d", areaPath(linePath(series[0], x, y), x, height));
    setAttr(markLine, "visibility", mark === null ? "hidden" : "visible");
    if (mark !== null) for (const end of ["y1", "y2"]) setAttr(markLine, end, y(mark).toFixed(1));
    return max;
  };
  return { node, update };
}

/** Two rising numbers, and the ground between them: what is offered above what is confirmed. */
export function between(height, label, room) {
  const band = svg("path", { class: "band" });
  const upper = svg("path", { class: "line upper" });
  const lower = svg("path", { class: "line lower" });
  const node = svg(
    "svg",
    {
      class: "chart",
      viewBox: `0 0 ${WIDTH} ${height}`,
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": label,
    },
    band,
    upper,
    lower,
  );
  const update = (high, low, name) => {
    const floor = low.length ? low[0] : 0;
    const top = high.length ? Math.max(high[high.length - 1], low[low.length - 1], floor + 1) : 1;
    const y = (value) => height - 2 - ((Math.max(value, floor) - floor) / (top - floor)) * (height - 2 - room);
    const x = xOf(high.length, spanOf(high.length));
    const up = linePath(high, x, y);
    const down = linePath(low, x, y);
    setAttr(upper, "d", up);
    setAttr(lower, "d", down);
    const back = low.map((value, at) => `L${x(at).toFixed(1)} ${y(value).toFixed(1)}`).reverse();
    setAttr(band, "d", up ? `${up}${back.join("")}Z` : "");
    setAttr(node, "aria-label", name);
  };
  return { node, update };
}
