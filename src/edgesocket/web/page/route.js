// The address behind "#" is the state of the page: which job, which tab, how the list is filtered and sorted.
//
//   #/?q=clicks&show=attention&sort=name     the list
//   #/jobs/NAME/log                          one job, one tab

/** What the address says: {job, tab, list: {q, show, sort}}. Anything it does not understand is the list. */
export function parseRoute(hash) {
  const [path, query = ""] = hash.replace(/^#/, "").split("?", 2);
  const parts = path.split("/").filter(Boolean);
  const list = Object.fromEntries(new URLSearchParams(query));
  if (parts[0] !== "jobs" || !parts[1]) return { job: null, tab: null, list };
  try {
    return { job: decodeURIComponent(parts[1]), tab: parts[2] ?? null, list: {} };
  } catch {
    return { job: null, tab: null, list }; // a broken escape
  }
}

/** The address of one job, and of a tab of it. */
export const jobRoute = (name, tab = null) => `#/jobs/${encodeURIComponent(name)}${tab ? `/${tab}` : ""}`;

/** The address of the list; what is as usual is left out. */
export function listRoute(list) {
  const query = new URLSearchParams(Object.entries(list).filter(([, value]) => value)).toString();
  return query ? `#/?${query}` : "#/";
}
