// Pieces that several views share: badges, meters, notices.

import { el, icon, keyed, setAttr, setIcon, setShown, setText } from "./dom.js";
import { jobRoute } from "./route.js";

const STATE_ICONS = {
  starting: "starting",
  running: "running",
  stopping: "stopping",
  restarting: "starting",
  ended: "ended",
  failed: "failed",
  fenced: "fenced",
};

/** The state of a job: a sign and a word. update(state, level). */
export function stateBadge() {
  const sign = icon("starting");
  const word = el("span");
  const node = el("span", { class: "badge" }, sign, word);
  const update = (state, level) => {
    setIcon(sign, STATE_ICONS[state] ?? "note");
    setText(word, state);
    const tone =
      state === "running"
        ? level === "good"
          ? "good"
          : "idle"
        : state === "failed" || state === "fenced"
          ? "bad"
          : state === "restarting"
            ? "warn"
            : "idle";
    setAttr(node, "class", `badge ${tone}`);
  };
  return { node, update };
}

/** How full something is against a mark. update(share of the track, place of the mark, full, words). */
export function meter() {
  const fill = el("span", { class: "meter-fill" });
  const mark = el("span", { class: "meter-mark" });
  const node = el("span", { class: "meter", role: "img" }, fill, mark);
  const update = (share, at, full, words) => {
    const width = `${(Math.min(1, Math.max(0, share)) * 100).toFixed(1)}%`;
    if (fill.style.width !== width) fill.style.width = width;
    const left = `${(Math.min(1, at) * 100).toFixed(1)}%`;
    if (mark.style.left !== left) mark.style.left = left;
    setAttr(node, "class", full ? "meter full" : "meter");
    setAttr(node, "aria-label", words);
  };
  return { node, update };
}

/** Notices of troublesOf for a job, one below the other. update(troubles). */
export function notices(name) {
  const node = el("div", { class: "notices" });
  const update = (troubles) => {
    setShown(node, troubles.length > 0);
    keyed(
      node,
      troubles,
      ({ key }) => key,
      () => makeNotice(name),
    );
  };
  return { node, update };
}

const MORE = { log: "Its log", letters: "Show them", sessions: "Sessions" };
const WORDS = { bad: "Trouble", warn: "Attention", note: "Note" };

function makeNotice(name) {
  const sign = icon("note");
  const word = el("span", { class: "sr" });
  const title = el("strong");
  const text = el("span", { class: "notice-text" });
  const command = commandLine();
  const more = el("a", { class: "notice-more" });
  const node = el(
    "div",
    { class: "notice" },
    sign,
    el("div", { class: "notice-body" }, word, title, " ", text, " ", more, command.node),
  );
  const update = (trouble) => {
    setAttr(node, "class", `notice ${trouble.level}`);
    setIcon(sign, trouble.level);
    setText(word, `${WORDS[trouble.level]}: `);
    setText(title, trouble.text ? `${trouble.title}.` : trouble.title);
    setText(text, trouble.text);
    command.update(trouble.command);
    setShown(more, trouble.tab !== "");
    setText(more, MORE[trouble.tab] ?? "");
    setAttr(more, "href", jobRoute(name, trouble.tab));
  };
  return { node, update };
}

/** A command with a button that copies it. update(text); "" hides it. */
export function commandLine() {
  const code = el("code", { tabindex: "0" });
  const said = el("span", { role: "status" });
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(code.textContent);
      setText(said, "Copied");
    } catch {
      // No clipboard without TLS: leave it selected, so that one key copies it.
      getSelection().selectAllChildren(code);
      setText(said, "Selected: press Ctrl+C");
    }
    setTimeout(() => setText(said, ""), 3000);
  };
  const button = el(
    "button",
    { type: "button", class: "quiet small", onclick: copy },
    icon("copy"),
    el("span", {}, "Copy"),
  );
  const node = el("div", { class: "command" }, code, button, said);
  const update = (text) => {
    setShown(node, Boolean(text));
    setText(code, text);
  };
  update("");
  return { node, update };
}

/** A figure with its name above it. update(value, below). */
export function figure(name, className = "") {
  const value = el("dd", { class: "figure-value" });
  const below = el("dd", { class: "figure-below" });
  const node = el("div", { class: `figure ${className}` }, el("dt", {}, name), value, below);
  const update = (text, more = "") => {
    setText(value, text);
    setText(below, more);
    setShown(below, more !== "");
  };
  return { node, update };
}

/** Ask "really?" in a dialog. Returns whether the answer was yes. */
export function ask(title, text, yes) {
  const dialog = document.getElementById("ask-dialog");
  document.getElementById("ask-title").textContent = title;
  document.getElementById("ask-text").textContent = text;
  document.getElementById("ask-yes").textContent = yes;
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) =>
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true }),
  );
}
