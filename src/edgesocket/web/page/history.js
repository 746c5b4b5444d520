// What the last minutes looked like. The server sends the present; the page remembers, one sample a second.

/** Samples kept of each job: three minutes. */
export const SAMPLES = 180;

const RATES = ["received_records_per_s", "written_rows_per_s", "received_bytes_per_s", "batches_per_s"];

class JobHistory {
  received = [];
  written = [];
  bytes = [];
  batches = [];
  queue = [];
  watermark = [];
  highest = [];
  replies = [];
  times = [];
  #base = null;

  add(job, time) {
    const source = job.status?.source ?? {};
    const rates = RATES.map((name) => job.rates?.[name] ?? 0);
    [this.received, this.written, this.bytes, this.batches].forEach((ring, at) => keep(ring, rates[at]));
    keep(this.queue, Number(source.queue?.records ?? 0));
    // Ids may be larger than a float can tell apart; their distances are not.
    this.#base ??= source.watermark === undefined ? null : BigInt(source.watermark);
    keep(this.watermark, this.#offset(source.watermark));
    keep(this.highest, this.#offset(source.highest_offered));
    keep(this.replies, source.replies ?? {});
    keep(this.times, time);
  }

  #offset(id) {
    return id === undefined || id === null || this.#base === null ? 0 : Number(BigInt(id) - this.#base);
  }

  /** Replies of one kind a second, over the last few samples. Counts that fell (a restart) give 0. */
  replyRate(kind) {
    const from = Math.max(0, this.times.length - 6);
    const last = this.times.length - 1;
    if (last <= from) return 0;
    const many = (this.replies[last][kind] ?? 0) - (this.replies[from][kind] ?? 0);
    return many > 0 ? many / Math.max(1e-3, this.times[last] - this.times[from]) : 0;
  }
}

function keep(ring, value) {
  ring.push(value);
  if (ring.length > SAMPLES) ring.shift();
}

/** The histories of all jobs of the last figures. */
export class Histories {
  #jobs = new Map();

  /** Remember one set of figures; forgets jobs that are no longer there. */
  add(figures) {
    const names = new Set();
    for (const job of figures.jobs) {
      names.add(job.name);
      if (!this.#jobs.has(job.name)) this.#jobs.set(job.name, new JobHistory());
      this.#jobs.get(job.name).add(job, figures.time);
    }
    for (const name of this.#jobs.keys()) if (!names.has(name)) this.#jobs.delete(name);
  }

  /** That of one job. */
  of(name) {
    return this.#jobs.get(name) ?? new JobHistory();
  }
}
