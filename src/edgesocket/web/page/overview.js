// The list of all jobs of the process.

import { el, keyed, setAttr, setShown, setText } from "./dom.js";
import { bytes, plural, short } from "./format.js";
import { makeRow } from "./overview_row.js";
import { listRoute, parseRoute } from "./route.js";
import { SHOWS, SORTS, judged, select } from "./selection.js";

/** Rows change places at most this often when the list is sorted by something that moves. */
const RESORT_MS = 3000;

const COLUMNS = [
  ["name", "Job"],
  ["received", "Received"],
  ["written", "Written"],
  ["queue", "Queue against its mark"],
  ["behind", "Not confirmed"],
  ["checkpoint", "Checkpoints"],
  [null, "Collector"],
];

/** The view: {node, update(figures, histories, list), focusFilter, move(step)}. */
export function makeOverview() {
  const totals = makeTotals();
  const controls = makeControls();
  const body = el("tbody");
  const heads = COLUMNS.map(([sort, title]) => makeHead(sort, title, controls));
  const table = el(
    "table",
    { class: "jobs" },
    el("caption", { class: "sr" }, "All jobs of this process"),
    el("thead", {}, el("tr", {}, ...heads.map(({ node }) => node))),
    body,
  );
  const empty = el("p", { class: "empty" });
  const node = el(
    "div",
    { class: "overview" },
    el("div", { class: "title-row" }, el("h1", { tabindex: "-1" }, "Jobs"), totals.node),
    controls.node,
    table,
    empty,
  );
  const order = new SteadyOrder();

  const update = (figures, histories, list) => {
    const all = figures.jobs.map(judged);
    totals.update(all);
    controls.update(list, all);
    heads.forEach((head) => head.update(list.sort ?? "attention"));
    let shown = select(all, list);
    shown = order.steady(shown, list, body.querySelector(":focus-visible") !== null);
    keyed(
      body,
      shown,
      ({ job }) => job.name,
      () => makeRow(histories),
    );
    setShown(table, shown.length > 0);
    setShown(empty, shown.length === 0);
    setText(
      empty,
      all.length === 0
        ? "This process runs no job yet."
        : "No job fits. Press Escape in the filter to see all of them.",
    );
  };
  const move = (step) => {
    const links = [...body.querySelectorAll("a.job-link")];
    const at = links.indexOf(document.activeElement);
    links[Math.max(0, Math.min(links.length - 1, at < 0 ? 0 : at + step))]?.focus();
  };
  return { node, update, move, focusFilter: () => controls.focus() };
}

/** Keeps rows where they are for a while, and as long as somebody is among them with the keyboard. */
class SteadyOrder {
  #names = [];
  #at = 0;
  #key = "";

  steady(wanted, list, busy) {
    const key = JSON.stringify([list, wanted.map(({ job }) => job.name).sort()]);
    const live = SORTS[list.sort]?.live ?? false;
    const keep = key === this.#key && (busy || (live && Date.now() - this.#at < RESORT_MS));
    if (!keep) {
      this.#key = key;
      this.#at = Date.now();
      this.#names = wanted.map(({ job }) => job.name);
      return wanted;
    }
    const byName = new Map(wanted.map((one) => [one.job.name, one]));
    return this.#names.map((name) => byName.get(name));
  }
}

function makeTotals() {
  const text = el("p", { class: "totals" });
  const update = (all) => {
    const sum = (of) => all.reduce((total, { job }) => total + (of(job) ?? 0), 0);
    const bad = all.filter(({ level }) => level !== "good").length;
    const parts = [
      plural(all.length, "job"),
      `${short(sum((job) => job.rates?.received_records_per_s))} records/s in`,
      `${short(sum((job) => job.rates?.written_rows_per_s))} rows/s out`,
      `${bytes(sum((job) => job.rates?.received_bytes_per_s))}/s`,
      bad ? `${bad === 1 ? "1 needs" : `${bad} need`} attention` : "all well",
    ];
    setText(text, parts.join("  ·  "));
  };
  return { node: text, update };
}

function makeControls() {
  // From the address, not from what was drawn last: two changes may come before the next drawing.
  const change = (changes) => location.replace(listRoute({ ...parseRoute(location.hash).list, ...changes }));
  const filter = el("input", {
    type: "search",
    id: "filter",
    placeholder: "Filter by name, plug-in, trouble …",
    spellcheck: "false",
    autocomplete: "off",
    oninput: () => change({ q: filter.value }),
    onkeydown: (event) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      if (filter.value) change({ q: (filter.value = "") });
      else filter.blur();
    },
  });
  const chips = Object.entries(SHOWS).map(([show, { title }]) => {
    const number = el("span", { class: "chip-count" });
    const button = el(
      "button",
      { type: "button", class: "chip", onclick: () => change({ show: show === "all" ? "" : show }) },
      title,
      number,
    );
    return { show, button, number };
  });
  const sort = el(
    "select",
    { id: "sort", onchange: () => change({ sort: sort.value === "attention" ? "" : sort.value }) },
    ...Object.entries(SORTS).map(([value, { title }]) => el("option", { value }, title)),
  );
  const node = el(
    "div",
    { class: "controls" },
    el("label", { class: "sr", for: "filter" }, "Filter jobs"),
    filter,
    el("div", { class: "chips", role: "group", "aria-label": "Show" }, ...chips.map(({ button }) => button)),
    el("span", { class: "grow" }),
    el("label", { for: "sort" }, "Sort by"),
    sort,
  );
  const update = (now, all) => {
    if (document.activeElement !== filter && filter.value !== (now.q ?? "")) filter.value = now.q ?? "";
    if (document.activeElement !== sort) sort.value = now.sort in SORTS ? now.sort : "attention";
    for (const { show, button, number } of chips) {
      setAttr(button, "aria-pressed", String((now.show || "all") === show));
      setText(number, all.filter(SHOWS[show].of).length);
    }
  };
  return { node, update, sortBy: (by) => change({ sort: by }), focus: () => filter.select() };
}

function makeHead(sort, title, controls) {
  if (sort === null) return { node: el("th", { scope: "col" }, title), update: () => undefined };
  const node = el(
    "th",
    { scope: "col", class: `col-${sort}` },
    el("button", { type: "button", class: "head", onclick: () => controls.sortBy(sort) }, title),
  );
  const update = (now) =>
    setAttr(node, "aria-sort", now !== sort ? null : sort === "name" ? "ascending" : "descending");
  return { node, update };
}
