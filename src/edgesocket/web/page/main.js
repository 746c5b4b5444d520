// Puts the page together: the stream brings figures, the address says what is shown, views draw it.

import { setAttr, setShown, setText } from "./dom.js";
import { clock, plural } from "./format.js";
import { Histories } from "./history.js";
import { makeJob, tabOfKey } from "./job.js";
import { listen } from "./keys.js";
import { makeOverview } from "./overview.js";
import { jobRoute, listRoute, parseRoute } from "./route.js";
import { judged, select } from "./selection.js";
import { Stream } from "./stream.js";

const byId = (id) => document.getElementById(id);
const main = byId("main");
const histories = new Histories();

let figures = null;
let route = parseRoute(location.hash);
let view = null;
let shownJob = undefined;
let list = route.list;
let paused = false;
let phase = { name: "connecting", since: null };
let waiting = false;

function draw() {
  waiting = false;
  if (figures === null) return;
  // With a single job there is nothing to choose: the bare address opens it.
  const only = figures.jobs.length === 1 && location.hash === "" ? figures.jobs[0].name : null;
  const name = route.job ?? only;
  if (name !== shownJob) open(name);
  if (name === null) view.update(figures, histories, route.list);
  else {
    view.showTab(route.tab);
    view.update(
      figures.jobs.find((job) => job.name === name),
      figures,
      histories,
    );
  }
  showTitle(name);
}

function open(name) {
  const first = shownJob === undefined;
  const before = shownJob;
  view?.close?.();
  view = name === null ? makeOverview() : makeJob(name);
  shownJob = name;
  main.replaceChildren(view.node);
  if (first) return;
  scrollTo(0, 0);
  // Whoever walks with the keyboard goes on where they were.
  draw();
  const link =
    name === null && [...main.querySelectorAll("a.job-link")].find(({ textContent }) => textContent === before);
  (link || main.querySelector("h1")).focus({ preventScroll: !link });
}

function showTitle(name) {
  const all = figures.jobs.map(judged);
  const bad = all.filter(({ level }) => level !== "good").length;
  const where = name === null ? plural(figures.jobs.length, "job") : name;
  setText(byId("host"), figures.host ?? "");
  const title = `${bad ? `(${bad}) ` : ""}${where} · EdgeSocket`;
  if (document.title !== title) document.title = title;
  announce(all);
}

let announced = null;

/** Tell a screen reader what is newly wrong, and nothing else. */
function announce(all) {
  const now = new Map(
    all.flatMap(({ job, troubles }) =>
      troubles
        .filter(({ level }) => level !== "note")
        .map(({ key, title }) => [`${job.name} ${key}`, `${job.name}: ${title}`]),
    ),
  );
  const fresh = announced === null ? [] : [...now].filter(([key]) => !announced.has(key)).map(([, text]) => text);
  announced = new Set(now.keys());
  if (fresh.length) setText(byId("announce"), fresh.slice(0, 3).join(". "));
}

/** Draw with the next picture of the screen, once however often it is asked for. A hidden page draws nothing. */
function drawSoon() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(draw);
}

function onFigures(fresh) {
  histories.add(fresh);
  if (paused) return;
  figures = fresh;
  byId("waiting")?.remove();
  drawSoon();
}

function onPhase(next) {
  phase = next;
  showPhase();
}

function showPhase() {
  const { name, since, retryAt, reason } = phase;
  const wait = retryAt ? Math.max(0, Math.ceil((retryAt - Date.now()) / 1000)) : 0;
  const again = wait > 0 ? `trying again in ${wait} s` : "trying again";
  const words = {
    live: paused ? "Held still" : "Live",
    connecting: retryAt ? `No connection, ${again}` : "Connecting",
    stale: `Stale since ${clock(since)}`,
    refused: "Token needed",
  };
  setText(byId("pulse-text"), words[name]);
  setAttr(byId("pulse"), "class", `pulse ${paused && name === "live" ? "held" : name}`);
  setShown(byId("retry"), name !== "live" && (name === "refused" || Boolean(retryAt)));
  setText(byId("retry"), name === "refused" ? "Enter token" : "Try now");
  setShown(byId("stale"), name === "stale");
  if (name === "stale") setText(byId("stale"), `These figures are of ${clock(since)}: ${reason}; ${again}.`);
  document.body.classList.toggle("is-stale", name === "stale");
}

function togglePause() {
  paused = !paused;
  setAttr(byId("pause"), "aria-pressed", String(paused));
  document.body.classList.toggle("is-held", paused);
  showPhase();
}

function showTheme() {
  const theme = window.edgesocketTheme.current;
  setAttr(byId("theme-icon"), "href", `#i-${theme}`);
  setText(byId("theme-text"), `Theme: ${theme === "auto" ? "as the system" : theme}`);
}

function nextTheme() {
  window.edgesocketTheme.next();
  showTheme();
}

function step(by) {
  if (figures === null) return;
  if (shownJob === null) return void view.move(by);
  const names = select(figures.jobs.map(judged), list).map(({ job }) => job.name);
  const next = names[names.indexOf(shownJob) + by];
  if (next !== undefined) location.hash = jobRoute(next, route.tab);
}

function back() {
  if (shownJob === null || shownJob === undefined) return false;
  location.hash = listRoute(list);
  return true;
}

function onRoute() {
  route = parseRoute(location.hash);
  if (route.job === null) list = route.list;
  drawSoon();
}

const stream = new Stream(onFigures, onPhase);
const tab = (event) => {
  const word = tabOfKey(event.key);
  if (!shownJob || !word) return false;
  location.replace(jobRoute(shownJob, word));
  return true;
};

listen({
  "/": () => view?.focusFilter?.(),
  j: () => step(1),
  k: () => step(-1),
  Escape: back,
  p: togglePause,
  t: nextTheme,
  r: () => stream.retryNow(),
  "?": () => byId("help-dialog").showModal(),
  1: tab,
  2: tab,
  3: tab,
  4: tab,
});
byId("retry").addEventListener("click", () => stream.retryNow());
byId("pause").addEventListener("click", togglePause);
byId("theme").addEventListener("click", nextTheme);
byId("help").addEventListener("click", () => byId("help-dialog").showModal());
addEventListener("hashchange", onRoute);
document.addEventListener("visibilitychange", drawSoon);
setInterval(() => phase.name !== "live" && showPhase(), 500);
showTheme();
showPhase();
stream.start();
