// What single keys do, and the list of them in the help.

import { el } from "./dom.js";

const OFF_KEY = "edgesocket.keys";

/** All keys: [shown, does]. The order is that of the help. */
const KEYS = [
  ["/", "go to the filter"],
  ["j  k", "next and previous job"],
  ["Enter", "open the job"],
  ["Esc", "close, or back to all jobs"],
  ["1 – 4", "log, rows in flight, dead letters, sessions"],
  ["p", "hold the picture still, and go on"],
  ["r", "connect again now"],
  ["t", "light, dark, as the system"],
  ["?", "the list of keys, and the words of the page"],
];

let on = read();

function read() {
  try {
    return localStorage.getItem(OFF_KEY) !== "off";
  } catch {
    return true;
  }
}

/** Fill the help and listen. `actions` maps keys to functions; one that returns false left the key alone. */
export function listen(actions) {
  document
    .getElementById("keys")
    .append(
      ...KEYS.map(([keys, does]) =>
        el("div", {}, el("dt", {}, ...keys.split("  ").map((key) => el("kbd", {}, key))), el("dd", {}, does)),
      ),
    );
  const box = document.getElementById("keys-on");
  box.checked = on;
  box.addEventListener("change", () => {
    on = box.checked;
    try {
      localStorage.setItem(OFF_KEY, on ? "on" : "off");
    } catch {
      // storage is forbidden here: it then lasts as long as the page
    }
  });
  for (const button of document.querySelectorAll("dialog [data-close]")) {
    button.addEventListener("click", () => button.closest("dialog").close(""));
  }
  document.getElementById("token-form").addEventListener("submit", (event) => {
    event.preventDefault();
    event.target.closest("dialog").close("given");
  });
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (document.querySelector("dialog[open]")) return;
    const typing = event.target.matches?.("input:not([type=checkbox]), textarea, select");
    if (typing || (!on && event.key !== "Escape")) return;
    const action = actions[event.key];
    if (action && action(event) !== false) event.preventDefault();
  });
}
