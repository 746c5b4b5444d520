// Numbers, sizes and times as people read them, and JSON in which a batch id keeps all its digits.

const GROUPED = new Intl.NumberFormat("en-GB");
const NOTHING = "–";

const missing = (value) => value === null || value === undefined || Number.isNaN(value);

/** 1204388 -> "1,204,388". Takes numbers and BigInts. */
export function count(value) {
  return missing(value) ? NOTHING : GROUPED.format(value);
}

/** 1204388 -> "1.2M"; below ten thousand in full, fractions only below ten. */
export function short(value) {
  if (missing(value)) return NOTHING;
  const n = Number(value);
  if (n < 10_000) return n > 0 && n < 9.95 && !Number.isInteger(n) ? n.toFixed(1) : GROUPED.format(Math.round(n));
  for (const [limit, unit, letter] of [
    [999_500, 1e3, "k"],
    [999_500_000, 1e6, "M"],
    [Infinity, 1e9, "G"],
  ]) {
    if (n < limit) return scaled(n / unit) + letter;
  }
  return NOTHING;
}

/** Bytes in powers of ten: "512 B", "1.5 kB", "38.2 MB". */
export function bytes(value) {
  if (missing(value)) return NOTHING;
  let n = Number(value);
  if (n < 1000) return `${Math.round(n)} B`;
  for (const unit of ["kB", "MB", "GB", "TB"]) {
    n /= 1000;
    if (n < 999.5 || unit === "TB") return `${scaled(n)} ${unit}`;
  }
  return NOTHING;
}

const scaled = (n) => (n < 99.95 ? n.toFixed(1) : String(Math.round(n)));

/** A length of time in seconds: "0.04 s", "12 s", "3 min 4 s", "2 h 5 min", "3 d 4 h". */
export function seconds(value) {
  if (missing(value)) return NOTHING;
  const s = Math.max(0, Number(value));
  if (s < 0.995) return s === 0 ? "0 s" : s < 0.0995 ? `${Math.max(1, Math.round(s * 1000))} ms` : `${s.toFixed(2)} s`;
  if (s < 9.95) return `${s.toFixed(1)} s`;
  const whole = Math.round(s);
  if (whole < 120) return `${whole} s`;
  if (whole < 7200) return joined(Math.floor(whole / 60), "min", whole % 60, "s");
  if (whole < 172_800) return joined(Math.floor(whole / 3600), "h", Math.floor((whole % 3600) / 60), "min");
  return joined(Math.floor(whole / 86_400), "d", Math.floor((whole % 86_400) / 3600), "h");
}

const joined = (a, aUnit, b, bUnit) => (b ? `${a} ${aUnit} ${b} ${bUnit}` : `${a} ${aUnit}`);

/** How long ago, in words. Less than a second is "just now", so that a fresh figure does not flicker. */
export function ago(value) {
  if (missing(value)) return "never";
  return value < 1 ? "just now" : `${seconds(Math.floor(value))} ago`;
}

/** The time of day of a Unix time in milliseconds, in the zone of this browser; with the date unless it is today's. */
export function clock(ms, now = Date.now()) {
  if (missing(ms)) return NOTHING;
  const at = new Date(ms);
  const time = at.toLocaleTimeString("en-GB", { hour12: false });
  return at.toDateString() === new Date(now).toDateString() ? time : `${at.toLocaleDateString("en-GB")} ${time}`;
}

/** a - b of two ids, exactly. */
export function distance(a, b) {
  if (missing(a) || missing(b)) return null;
  return typeof a === "bigint" || typeof b === "bigint" ? BigInt(a) - BigInt(b) : a - b;
}

/** "1 row", "2 rows". */
export function plural(n, one, many = `${one}s`) {
  return `${count(n)} ${Number(n) === 1 ? one : many}`;
}

const LONG_INTEGER = /(?<![\d.])\d{16,}(?![\d.eE])/;

/**
 * JSON.parse that keeps integers beyond 2^53 as BigInts: a batch id may be any 63-bit number, and one digit off names
 * another batch. Only a text that can hold such a number pays for the slower way.
 */
export function parseJson(text) {
  if (!LONG_INTEGER.test(text)) return JSON.parse(text);
  return JSON.parse(text, (_key, value, context) => {
    if (typeof value !== "number" || Number.isSafeInteger(value) || !Number.isInteger(value)) return value;
    const source = context?.source; // older browsers have none: the number is then as near as they get
    return source && /^-?\d+$/.test(source) ? BigInt(source) : value;
  });
}

/** JSON.stringify for one row as it was read by parseJson. */
export function jsonText(value, indent) {
  const text = JSON.stringify(value, (_key, v) => (typeof v === "bigint" ? `\u0000${v}` : v), indent);
  return text === undefined ? "" : text.replace(/"\\u0000(-?\d+)"/g, "$1");
}
