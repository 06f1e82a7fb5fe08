// Figures as people read them. What is not known is a dash, never a zero.

export const UNKNOWN = "–";
const NARROW = "\u00a0";

const known = (value) => typeof value === "number" && Number.isFinite(value);
const signed = (text) => text.replace("-", "−");

// About three significant figures.
export function figure(value) {
  if (!known(value)) return UNKNOWN;
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e9)) return signed(value.toExponential(2));
  const decimals = size === 0 ? 0 : Math.max(0, 2 - Math.floor(Math.log10(size)));
  return signed(value.toLocaleString("en", { minimumFractionDigits: 0, maximumFractionDigits: decimals }));
}

export function percent(value) {
  if (!known(value)) return UNKNOWN;
  const decimals = Math.abs(value) < 0.0995 ? 1 : 0;
  return signed(`${(100 * value).toLocaleString("en", { maximumFractionDigits: decimals })}${NARROW}%`);
}

export function seconds(value) {
  if (!known(value)) return UNKNOWN;
  const size = Math.abs(value);
  if (size !== 0 && size < 1e-6) return `${figure(value * 1e9)}${NARROW}ns`;
  if (size !== 0 && size < 1e-3) return `${figure(value * 1e6)}${NARROW}µs`;
  if (size < 1) return `${figure(value * 1e3)}${NARROW}ms`;
  if (size < 120) return `${figure(value)}${NARROW}s`;
  if (size < 7200) return `${figure(Math.round(value / 6) / 10)}${NARROW}min`;
  return size < 172800 ? `${figure(Math.round(value / 360) / 10)}${NARROW}h` : `${figure(value / 86400)}${NARROW}d`;
}

export function bytes(value) {
  if (!known(value)) return UNKNOWN;
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let power = 0;
  while (Math.abs(value) >= 1024 && power < units.length - 1) {
    value /= 1024;
    power += 1;
  }
  return `${figure(value)}${NARROW}${units[power]}`;
}

// 59 to 64 µs; the unit stands once where both have the same.
export function between(low, high) {
  const [first, unit] = low.split(NARROW);
  return unit !== undefined && unit === high.split(NARROW)[1] ? `${first} to ${high}` : `${low} to ${high}`;
}

export function times(count) {
  return count === 0 ? "never" : count === 1 ? "once" : count === 2 ? "twice" : `${count.toLocaleString("en")} times`;
}

export function ago(moment, now) {
  const passed = (now - new Date(moment)) / 1000;
  return passed < 1 ? "now" : `${seconds(Math.round(passed))} ago`;
}

export function moment(text) {
  return new Date(text).toLocaleString("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", second: "2-digit" });
}

export function clock(date, withDay) {
  const time = date.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
  return withDay ? `${date.toLocaleDateString("en-GB", { day: "numeric", month: "short" })} ${time}` : time;
}

// Names with a unit at their end, as the status has them, with that unit.
export function byName(name, value) {
  if (name.endsWith("_frac")) return percent(value);
  if (name.endsWith("bytes_per_s")) return `${bytes(value)}/s`;
  if (name.endsWith("_bytes")) return bytes(value);
  if (name.endsWith("_s")) return seconds(value);
  return figure(value);
}

export function byUnit(unit, value) {
  if (value === null || value === undefined) return UNKNOWN;
  if (unit === "s") return seconds(value);
  if (unit === "frac" || unit === "1") return percent(value);
  if (unit.startsWith("s/")) return seconds(value); // per what stands beside the name
  if (unit === "bytes") return bytes(value);
  if (unit === "bytes/s") return `${bytes(value)}/s`;
  return unit ? `${figure(value)}${NARROW}${unit}` : figure(value);
}

const SUFFIXES = /_(frac|bytes_per_s|bytes|s|tokens|blocks)$/;
const CAPITALS = { ttft: "TTFT", itl: "ITL", lru: "LRU", arc: "ARC", kv: "KV", p50: "p50", p95: "p95", p99: "p99", h2d: "H2D", d2h: "D2H" };

// ttft_p95_s → TTFT p95
export function words(name) {
  const parts = name.replace(SUFFIXES, "").replace("_s_per_", "_per_").split("_").map((part) => CAPITALS[part] ?? part);
  const text = parts.join(" ");
  return text.charAt(0).toUpperCase() + text.slice(1);
}
