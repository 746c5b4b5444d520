// Which jobs the list shows, and in which order. Pure.

import { distance } from "./format.js";
import { levelOf, troublesOf } from "./troubles.js";

/** Ways to sort, by the word in the address: how each is called, and what is compared (bigger first). */
export const SORTS = {
  attention: { title: "Needs attention first", of: ({ rank }) => rank, live: false },
  name: { title: "Name", of: () => 0, live: false },
  received: { title: "Received", of: ({ job }) => job.rates?.received_records_per_s ?? 0, live: true },
  written: { title: "Written", of: ({ job }) => job.rates?.written_rows_per_s ?? 0, live: true },
  queue: { title: "Queue", of: ({ job }) => queueShare(job), live: true },
  behind: { title: "Not confirmed", of: ({ job }) => Number(behind(job) ?? -1), live: true },
  checkpoint: {
    title: "Last checkpoint",
    of: ({ job }) => job.status?.checkpoints?.last_completed_ago_s ?? -1,
    live: true,
  },
};

/** Which jobs are shown, by the word in the address. */
export const SHOWS = {
  all: { title: "All", of: () => true },
  attention: { title: "Need attention", of: ({ level }) => level !== "good" },
  running: { title: "Running", of: ({ job }) => job.state === "running" },
  ended: { title: "Not running", of: ({ job }) => job.state !== "running" },
};

const RANKS = { bad: 2, warn: 1, good: 0 };

/** A job with what is wrong with it. */
export function judged(job) {
  const troubles = troublesOf(job);
  const level = levelOf(troubles);
  return { job, troubles, level, rank: RANKS[level] };
}

/** How full the queue is against its mark, 0 to 1 and beyond. */
export function queueShare(job) {
  const queue = job.status?.source?.queue;
  return queue?.high_water_mark ? queue.records / queue.high_water_mark : 0;
}

/** How far the highest id lies above the confirmed one; null where nothing is known. */
export function behind(job) {
  const source = job.status?.source;
  if (!source) return null;
  const far = distance(source.highest_offered, source.watermark);
  return far !== null && far < 0 ? 0 : far;
}

/** The jobs to show, in order. `list` is what the address says: {q, show, sort}; every word of q must be found. */
export function select(all, { q = "", show = "all", sort = "attention" }) {
  const words = q.toLowerCase().split(/\s+/).filter(Boolean);
  const shown = (SHOWS[show] ?? SHOWS.all).of;
  const value = (SORTS[sort] ?? SORTS.attention).of;
  return all
    .filter((one) => shown(one) && words.every((word) => haystack(one).includes(word)))
    .sort((a, b) => value(b) - value(a) || byName(a.job.name, b.job.name));
}

const COLLATOR = new Intl.Collator("en", { numeric: true });
const byName = (a, b) => COLLATOR.compare(a, b);

function haystack({ job, troubles }) {
  const plugins = (job.pipeline?.nodes ?? []).map(({ plugin, label }) => `${plugin ?? ""} ${label ?? ""}`);
  return [job.name, job.state, ...plugins, ...troubles.map(({ title }) => title), job.status?.source?.collector ?? ""]
    .join(" ")
    .toLowerCase();
}
