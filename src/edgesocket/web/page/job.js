// One job, open: its picture, its figures, and behind tabs what has many lines.

import { post, jobPath } from "./api.js";
import { makeCheckpoints } from "./checkpoints.js";
import { el, setAttr, setShown, setText } from "./dom.js";
import { seconds } from "./format.js";
import { makeQueue, makeReplies, makeThroughput, makeWatermark } from "./cards.js";
import { makeLetters } from "./letters.js";
import { makeLog } from "./log.js";
import { ask, notices, stateBadge } from "./parts.js";
import { makePicture } from "./picture.js";
import { jobRoute } from "./route.js";
import { makeRows } from "./rows.js";
import { judged } from "./selection.js";
import { makeSessions } from "./sessions.js";

/** Tabs by their word in the address. */
const TABS = [
  ["log", "Log", makeLog],
  ["rows", "Rows in flight", makeRows],
  ["letters", "Dead letters", makeLetters],
  ["sessions", "Sessions", makeSessions],
];

/** The view of one job: {node, update(job, figures, histories), showTab(word), close}. */
export function makeJob(name) {
  const head = makeHead(name);
  const told = notices(name);
  const picture = makePicture();
  const cards = [makeThroughput(), makeQueue(), makeWatermark(), makeReplies(), makeCheckpoints()];
  const tabs = makeTabs(name);
  const body = el(
    "div",
    { class: "job-body" },
    told.node,
    el("section", { class: "card card-picture", "aria-label": "Pipeline" }, picture.node),
    el("div", { class: "cards" }, ...cards.map(({ node }) => node)),
    tabs.node,
  );
  const gone = el(
    "p",
    { class: "empty", hidden: true },
    "This process does not run a job of this name. ",
    el("a", { href: "#/" }, "All jobs"),
  );
  const node = el("div", { class: "job" }, head.node, gone, body);
  const update = (job, figures, histories) => {
    setShown(gone, !job);
    setShown(body, Boolean(job));
    const one = job ? judged(job) : null;
    head.update(one, figures);
    if (!job) return;
    told.update(one.troubles);
    picture.update(job);
    const history = histories.of(name);
    for (const card of cards) card.update(job, history, figures);
    tabs.update(job, figures);
  };
  return { node, update, showTab: tabs.show, close: tabs.close, focusFilter: tabs.focusFilter };
}

function makeHead(name) {
  const badge = stateBadge();
  const facts = el("p", { class: "facts" });
  const stop = el(
    "button",
    { type: "button", class: "danger", onclick: () => askToStop(name, said) },
    "Stop with a savepoint",
  );
  const said = el("span", { class: "said", role: "status" });
  const node = el(
    "div",
    { class: "title-row" },
    el(
      "nav",
      { "aria-label": "Where you are" },
      el("a", { href: "#/", class: "crumb", title: "All jobs (Escape)" }, "Jobs"),
      el("span", { "aria-hidden": "true" }, "/"),
    ),
    el("h1", { tabindex: "-1" }, name),
    badge.node,
    facts,
    el("span", { class: "grow" }),
    said,
    stop,
  );
  const update = (one, figures) => {
    setShown(badge.node, one !== null);
    setShown(stop, one !== null && ["running", "starting", "restarting"].includes(one.job.state));
    setText(facts, one === null ? "" : factsOf(one.job, figures));
    if (one !== null) badge.update(one.job.state, one.level);
  };
  return { node, update };
}

function factsOf(job) {
  const { epoch, pid, host, source, running_for_s: runs } = job.status ?? {};
  const parts = [];
  if (source?.endpoint) parts.push(`dialled: ${source.endpoint}`);
  else if (source?.port) parts.push(`port ${source.port}`);
  if (epoch) parts.push(`run ${epoch}${runs ? `, for ${seconds(Math.floor(runs))}` : ""}`);
  if (pid) parts.push(`process ${pid}${host ? ` on ${host}` : ""}`);
  return parts.join("  ·  ");
}

async function askToStop(name, said) {
  const text =
    "No new records are taken, what is queued goes to the sinks, and a last checkpoint is made. " +
    "The next start of the job goes on from there.";
  if (!(await ask(`Stop ${name}?`, text, "Stop it"))) return;
  setAttr(said, "class", "said");
  setText(said, "Asking it to stop …");
  try {
    const answer = await post(jobPath(name, "/stop"), { savepoint: true });
    setText(said, answer === null ? "" : "It stops; see the state above.");
  } catch (error) {
    setAttr(said, "class", "said bad");
    setText(said, `It was not stopped: ${error.message}`);
  }
}

function makeTabs(name) {
  const panel = el("div", { class: "tab-panel", id: "tab-panel", role: "tabpanel" });
  const views = new Map();
  let current = null;
  let last = null;
  const buttons = TABS.map(([word, title]) => {
    const number = el("span", { class: "chip-count", hidden: true });
    const button = el(
      "button",
      {
        type: "button",
        role: "tab",
        id: `tab-${word}`,
        "aria-controls": "tab-panel",
        onclick: () => location.replace(jobRoute(name, word)),
        onkeydown: (event) => moveAlong(event, buttons),
      },
      title,
      number,
    );
    return { word, button, number };
  });
  const node = el(
    "section",
    { class: "card card-tabs", "aria-label": "Details" },
    el("div", { class: "tabs", role: "tablist" }, ...buttons.map(({ button }) => button)),
    panel,
  );
  const show = (wanted) => {
    const word = TABS.some(([one]) => one === wanted) ? wanted : "log";
    if (word === current) return;
    views.get(current)?.hide();
    current = word;
    if (!views.has(word)) views.set(word, TABS.find(([one]) => one === word)[2](name));
    for (const { word: one, button } of buttons) {
      setAttr(button, "aria-selected", String(one === word));
      setAttr(button, "tabindex", one === word ? "0" : "-1");
    }
    setAttr(panel, "aria-labelledby", `tab-${word}`);
    panel.replaceChildren(views.get(word).node);
    views.get(word).show();
    if (last) views.get(word).update(...last);
  };
  const update = (job, figures) => {
    last = [job, figures];
    views.get(current)?.update(job, figures);
    const numbers = { letters: job.dead_letters?.count ?? 0 };
    for (const { word, number } of buttons) {
      setText(number, numbers[word] ?? "");
      setShown(number, Boolean(numbers[word]));
    }
  };
  const close = () => views.get(current)?.hide();
  return { node, update, show, close, focusFilter: () => views.get(current)?.focusFilter?.() };
}

function moveAlong(event, buttons) {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!step) return;
  event.preventDefault();
  const at = buttons.findIndex(({ button }) => button === event.currentTarget);
  const next = buttons[(at + step + buttons.length) % buttons.length].button;
  next.focus();
  next.click();
}

/** Words of a tab by its number key. */
export const tabOfKey = (key) => TABS[Number(key) - 1]?.[0];
