// Talking to the server that this page came from. Addresses are relative, so a proxy may put it below any path.

import { parseJson } from "./format.js";

const TOKEN_KEY = "edgesocket.token";

/** What the server answered instead of what was asked for. `status` is 0 when it did not answer at all. */
export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

let token = readToken();
let asked = null;

function readToken() {
  try {
    return sessionStorage.getItem(TOKEN_KEY) ?? "";
  } catch {
    return ""; // storage is forbidden here: the token then lasts as long as the page
  }
}

function keepToken(value) {
  token = value;
  try {
    if (value) sessionStorage.setItem(TOKEN_KEY, value);
    else sessionStorage.removeItem(TOKEN_KEY);
  } catch {
    // see readToken
  }
}

/** Ask for the token. Whoever asks while the dialog is open gets the same answer: whether there is a token now. */
export function askForToken(why) {
  asked ??= new Promise((resolve) => {
    const dialog = document.getElementById("token-dialog");
    const field = document.getElementById("token-field");
    document.getElementById("token-why").textContent = why;
    field.value = "";
    dialog.addEventListener(
      "close",
      () => {
        const given = dialog.returnValue === "given" && field.value !== "";
        if (given) keepToken(field.value.trim());
        field.value = "";
        asked = null;
        resolve(given);
      },
      { once: true },
    );
    dialog.returnValue = "";
    dialog.showModal();
  });
  return asked;
}

/** One request; `body` becomes JSON. Returns the response if it is a good one, else raises ApiError. */
export async function send(path, { method = "GET", body, signal } = {}) {
  const headers = {
    Accept: path.includes("stream") || path.includes("/tail") ? "text/event-stream" : "application/json",
  };
  if (token) headers.Authorization = `Bearer ${token}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(path, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body, plainIds),
      signal,
      cache: "no-store",
      credentials: "omit",
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "the server does not answer");
  }
  if (response.ok) return response;
  throw new ApiError(response.status, await messageOf(response));
}

const plainIds = (_key, value) => (typeof value === "bigint" ? String(value) : value);

async function messageOf(response) {
  try {
    const answer = await response.json();
    if (answer.message) return String(answer.message);
  } catch {
    // no JSON: the code has to do
  }
  return `the server answered ${response.status}`;
}

/** GET that is parsed. A missing token is not asked for here: the stream does that for the whole page. */
export async function get(path, signal) {
  return parseJson(await (await send(path, { signal })).text());
}

/** POST that changes something: asks for the token if there is none or it is wrong, once, and then tries again. */
export async function post(path, body) {
  try {
    if (!token && !(await askForToken("Changing something needs the token that the server was started with.")))
      return null;
    return parseJson(await (await send(path, { method: "POST", body })).text());
  } catch (error) {
    if (error.status !== 401) throw error;
    keepToken("");
    if (!(await askForToken("The server did not accept this token."))) return null;
    return parseJson(await (await send(path, { method: "POST", body })).text());
  }
}

/** Where a job's things are. */
export const jobPath = (name, rest = "") => `api/jobs/${encodeURIComponent(name)}${rest}`;

/** Forget the token that the server has refused. */
export const forgetToken = () => keepToken("");

/** Whether there is a token to send. */
export const hasToken = () => token !== "";
