// The end of the log of one job, followed.

import { get, jobPath } from "./api.js";
import { el, setText } from "./dom.js";
import { clock } from "./format.js";

const LOOK_MS = 1000;
const MAX_LINES = 1000;
const LEVELS = ["DEBUG", "INFO", "WARNING", "ERROR"];

/** The tab: {node, show, hide, update, focusFilter}. */
export function makeLog(name) {
  const list = el("ol");
  const box = el(
    "div",
    { class: "log", tabindex: "0", role: "log", "aria-live": "off", "aria-label": `Log of ${name}` },
    list,
  );
  const said = el("span", { class: "hint", role: "status" });
  const filter = el("input", {
    type: "search",
    id: "log-filter",
    placeholder: "Filter lines",
    spellcheck: "false",
    autocomplete: "off",
    oninput: () => sift(),
  });
  const level = el(
    "select",
    { id: "log-level", onchange: () => sift() },
    ...[
      ["DEBUG", "Everything"],
      ["INFO", "Info and worse"],
      ["WARNING", "Warnings and worse"],
      ["ERROR", "Errors"],
    ].map(([value, title]) => el("option", { value }, title)),
  );
  const follow = el("input", { type: "checkbox", id: "log-follow", checked: true });
  const node = el(
    "div",
    {},
    el(
      "div",
      { class: "controls" },
      el("label", { class: "sr", for: "log-filter" }, "Filter lines"),
      filter,
      el("label", { class: "sr", for: "log-level" }, "Level"),
      level,
      el("label", { class: "check" }, follow, " Follow the end"),
      el("span", { class: "grow" }),
      said,
    ),
    box,
  );
  let after = 0;
  let timer = null;
  let abort = null;
  let process = null;

  const fits = ({ dataset, textContent }) =>
    LEVELS.indexOf(dataset.level) >= LEVELS.indexOf(level.value) &&
    textContent.toLowerCase().includes(filter.value.toLowerCase());
  const sift = () => {
    for (const line of list.children) line.hidden = !fits(line);
    if (follow.checked) box.scrollTop = box.scrollHeight;
  };
  const take = ({ lines, next }) => {
    for (const line of lines) {
      const item = makeLine(line);
      item.hidden = !fits(item);
      list.append(item);
    }
    while (list.childElementCount > MAX_LINES) list.firstElementChild.remove();
    after = next ?? lines.at(-1)?.seq ?? after;
    if (lines.length && follow.checked) box.scrollTop = box.scrollHeight;
  };
  const look = async () => {
    abort = new AbortController();
    try {
      if (!document.hidden) {
        const answer = await get(jobPath(name, `/log?after=${after}`), abort.signal);
        take(answer);
        setText(said, list.childElementCount === 0 ? "Nothing was logged yet." : "");
      }
    } catch (error) {
      if (error.name === "AbortError") return;
      setText(said, `The log cannot be read: ${error.message}`);
    }
    if (abort !== null) timer = setTimeout(look, LOOK_MS);
  };
  // Who scrolls up wants to read; who scrolls down to the end wants to follow again.
  box.addEventListener("scroll", () => {
    follow.checked = box.scrollHeight - box.scrollTop - box.clientHeight < 24;
  });
  const hide = () => {
    clearTimeout(timer);
    abort?.abort();
    abort = null;
  };
  const update = ({ status }) => {
    // Another process counts its lines from one again.
    if (process !== null && status?.pid && status.pid !== process) after = 0;
    process = status?.pid ?? process;
  };
  return { node, show: look, hide, update, focusFilter: () => filter.select() };
}

function makeLine({ time_ms: at, level, text }) {
  const word = String(level).toUpperCase();
  return el(
    "li",
    { "data-level": word, class: `log-${word.toLowerCase()}` },
    el("time", { datetime: new Date(at).toISOString() }, clock(at)),
    " ",
    el("span", { class: "log-level" }, word),
    " ",
    el("span", { class: "log-text" }, text),
  );
}
