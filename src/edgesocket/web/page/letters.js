// Dead letters: records that could not be read or written, why, and sending them through the job again.

import { get, jobPath, post } from "./api.js";
import { el, keyed, setAttr, setShown, setText } from "./dom.js";
import { clock, plural } from "./format.js";
import { ask } from "./parts.js";

const PAGE = 50;

/** The tab: {node, show, hide, update(job)}. */
export function makeLetters(name) {
  const body = el("tbody");
  const all = el("input", { type: "checkbox", id: "letters-all", onchange: () => mark(all.checked) });
  const table = el(
    "table",
    { class: "plain letters" },
    el("caption", { class: "sr" }, "Dead letters"),
    el(
      "thead",
      {},
      el(
        "tr",
        {},
        el("th", { scope: "col" }, all, el("label", { class: "sr", for: "letters-all" }, "Mark all shown")),
        ...["When", "Batch", "Stage", "Reason", "Payload", "Replay"].map((title) => el("th", { scope: "col" }, title)),
      ),
    ),
    body,
  );
  const scroll = el("div", { class: "scroll tall", tabindex: "0", role: "group", "aria-label": "Dead letters" }, table);
  const none = el("p", { class: "empty small" });
  const said = el("span", { class: "hint", role: "status" });
  const chosen = el("button", { type: "button", class: "strong", onclick: () => replay(marked()) }, "Replay marked");
  const every = el("button", { type: "button", onclick: () => replayAll() }, "Replay all");
  const more = el("button", { type: "button", class: "quiet", onclick: () => load() }, "Show more");
  const controls = el("div", { class: "controls" }, chosen, every, el("span", { class: "grow" }), said);
  const node = el("div", {}, controls, scroll, none, more);
  let letters = [];
  let next = null;
  let known = null;

  const boxes = () => [...body.querySelectorAll("input:not(:disabled)")];
  const marked = () =>
    boxes()
      .filter((box) => box.checked)
      .map((box) => box.letter.position);
  const mark = (checked) => {
    for (const box of boxes()) box.checked = checked;
    count();
  };
  const count = () => {
    const many = marked().length;
    chosen.disabled = many === 0;
    setText(chosen, many ? `Replay ${many} marked` : "Replay marked");
    all.checked = many > 0 && many === boxes().length;
  };
  const render = (error = "") => {
    keyed(
      body,
      letters,
      ({ position, replayed, failed_again: again }) => `${position} ${replayed} ${again}`,
      (letter) => makeLetter(letter, count),
    );
    const some = letters.length > 0;
    setShown(scroll, some);
    setShown(controls, some || said.textContent !== "");
    for (const button of [chosen, every]) setShown(button, some);
    setShown(more, next !== null && some);
    setShown(none, !some);
    setText(none, error || "No dead letters.");
    count();
  };
  const load = async (anew = false) => {
    try {
      const answer = await get(
        jobPath(
          name,
          `/dead-letters?limit=${PAGE}${!anew && next !== null ? `&after=${encodeURIComponent(next)}` : ""}`,
        ),
      );
      letters = anew ? answer.letters : [...letters, ...answer.letters];
      next = answer.next ?? null;
      render();
    } catch (error) {
      letters = [];
      render(`The dead letters cannot be shown: ${error.message}.`);
    }
  };
  const replay = async (positions, everything = false) => {
    setText(said, "Replaying …");
    setAttr(said, "class", "hint");
    for (const button of [chosen, every]) button.disabled = true;
    try {
      const answer = await post(jobPath(name, "/dead-letters/replay"), everything ? { all: true } : { positions });
      setText(said, answer === null ? "" : resultOf(answer));
    } catch (error) {
      setAttr(said, "class", "hint bad");
      setText(said, `Nothing was replayed: ${error.message}`);
    }
    every.disabled = false;
    await load(true);
  };
  const replayAll = async () => {
    const text = "Each goes through the transforms and sinks of this job once more. What fails again stays here.";
    if (await ask("Replay all dead letters?", text, "Replay all")) await replay([], true);
  };
  const update = (job) => {
    // A letter can be read when the checkpoint behind it has completed.
    const now = `${job.dead_letters?.count ?? 0} ${job.status?.checkpoints?.last_number ?? 0}`;
    if (now === known) return;
    known = now;
    load(true);
  };
  return { node, update, show: () => (known = null), hide: () => undefined };
}

function resultOf({ replayed = 0, failed = 0, replayed_before: before = 0, complete = true }) {
  const words = [`${plural(replayed, "letter")} replayed`];
  if (failed) words.push(`${failed} refused again`);
  if (before) words.push(`${before} replayed before`);
  if (!complete) words.push("not all of them: ask again");
  return `${words.join(", ")}.`;
}

function makeLetter(letter, onMark) {
  const box = el("input", {
    type: "checkbox",
    "aria-label": `Mark the letter of batch ${letter.batch_id}`,
    onchange: onMark,
  });
  box.letter = letter;
  box.disabled = letter.replayed === true;
  const how = letter.replayed ? "✓ replayed" : letter.failed_again ? `refused again: ${letter.failed_again}` : "";
  const payload = typeof letter.payload === "string" ? letter.payload : JSON.stringify(letter.payload);
  const node = el(
    "tr",
    {},
    el("td", {}, box),
    el("td", {}, clock(letter.time_ms)),
    el("td", {}, String(letter.batch_id)),
    el("td", {}, String(letter.stage ?? "")),
    el("td", { class: "reason" }, String(letter.reason ?? "")),
    el("td", { class: "payload" }, el("code", {}, payload ?? "")),
    el("td", { class: letter.replayed ? "good" : null }, how),
  );
  return { node, update: () => undefined };
}
