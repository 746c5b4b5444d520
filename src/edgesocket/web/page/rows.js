// Sample rows while they are in flight to the sinks.

import { ApiError, askForToken, jobPath, send } from "./api.js";
import { el, setShown, setText } from "./dom.js";
import { readEvents } from "./events.js";
import { jsonText, parseJson, plural } from "./format.js";

const KEPT = 200;
const MAX_COLUMNS = 12;

/** The tab: {node, show, hide, update}. Sampling begins when it is asked for: it costs the job a little. */
export function makeRows(name) {
  const many = el(
    "select",
    { id: "rows-many" },
    ...[20, 100, 1000].map((n) => el("option", { value: n }, `${n} rows`)),
  );
  const button = el("button", { type: "submit", class: "strong" }, "Sample rows");
  const where = el("input", {
    type: "search",
    id: "rows-where",
    placeholder: "FIELD=VALUE or FIELD~TEXT",
    spellcheck: "false",
    autocomplete: "off",
  });
  const said = el("span", { class: "hint", role: "status" });
  const table = makeTable();
  const controls = el(
    "form",
    { class: "controls" },
    el("label", { class: "sr", for: "rows-where" }, "Only rows in which"),
    where,
    el("label", { class: "sr", for: "rows-many" }, "How many"),
    many,
    button,
    said,
  );
  const node = el("div", {}, controls, table.node);
  let abort = null;
  controls.addEventListener("submit", (event) => {
    event.preventDefault();
    if (abort === null) sample();
    else stop();
  });

  const stop = () => {
    abort?.abort();
    abort = null;
    setText(button, "Sample rows");
  };
  const sample = async () => {
    const own = (abort = new AbortController());
    table.clear();
    setText(button, "Stop");
    setText(said, "Waiting for rows …");
    let seen = 0;
    const query = new URLSearchParams({ rows: many.value, ...(where.value.trim() && { where: where.value.trim() }) });
    try {
      const response = await sampled(jobPath(name, `/tail?${query}`), own.signal);
      await readEvents(response, ({ data }) => {
        table.add(parseJson(data));
        setText(said, plural(++seen, "row"));
      });
      setText(said, `${plural(seen, "row")}. That was the sample.`);
    } catch (error) {
      setText(said, error.name === "AbortError" ? plural(seen, "row") : `No sample: ${error.message}`);
    }
    if (abort === own) stop();
  };
  return { node, show: () => undefined, hide: stop, update: () => undefined };
}

async function sampled(path, signal) {
  try {
    return await send(path, { signal });
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 401) throw error;
    if (!(await askForToken("Rows are shown to those who have the token of this server."))) throw error;
    return send(path, { signal });
  }
}

function makeTable() {
  const head = el("tr");
  const body = el("tbody");
  const box = el(
    "div",
    { class: "scroll tall", tabindex: "0", role: "group", "aria-label": "Sample rows", hidden: true },
    el("table", { class: "plain rows" }, el("thead", {}, head), body),
  );
  let columns = [];
  const clear = () => {
    columns = [];
    head.replaceChildren();
    body.replaceChildren();
    setShown(box, false);
  };
  const rename = (row) => {
    const fresh = Object.keys(row).filter((key) => !columns.includes(key));
    if (fresh.length === 0 || columns.length >= MAX_COLUMNS) return;
    columns = [...columns, ...fresh].slice(0, MAX_COLUMNS);
    head.replaceChildren(el("th", { scope: "col" }, "Batch"), ...columns.map((key) => el("th", { scope: "col" }, key)));
  };
  const add = ({ batch_id: id, row, text }) => {
    // A row that is too long comes as the beginning of its text.
    const record = row !== null && typeof row === "object" ? row : { value: row ?? text };
    rename(record);
    const cells = columns.map((key) => el("td", {}, shown(record[key])));
    body.prepend(el("tr", {}, el("th", { scope: "row" }, String(id ?? "")), ...cells));
    while (body.childElementCount > KEPT) body.lastElementChild.remove();
    setShown(box, true);
  };
  return { node: box, add, clear };
}

function shown(value) {
  if (value === undefined || value === null) return "";
  return typeof value === "object" ? jsonText(value) : String(value);
}
