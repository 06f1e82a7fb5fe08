// From values to places on the screen, and where the ticks stand.

export function linear([low, high], [from, to]) {
  const span = high - low || 1;
  return (value) => from + ((value - low) / span) * (to - from);
}

export function logarithmic([low, high], range) {
  const inner = linear([Math.log10(low), Math.log10(high)], range);
  return (value) => inner(Math.log10(value));
}

// Round numbers from 0 or below to the first one above.
export function ticks(low, high, count) {
  const rough = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9);
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, index) => (first + index) * step);
}

const SPANS_S = [1, 5, 15, 60, 300, 900, 1800, 3600, 7200, 14400, 43200, 86400, 172800, 604800];

// Moments of the local clock that people name.
export function timeTicks(from, to, count) {
  const rough = (to - from) / 1000 / count;
  const stepMs = 1000 * (SPANS_S.find((span) => span >= rough) ?? SPANS_S.at(-1));
  const offsetMs = new Date(from).getTimezoneOffset() * 60000;
  const found = [];
  for (let at = Math.ceil((from - offsetMs) / stepMs) * stepMs + offsetMs; at <= to; at += stepMs) found.push(at);
  return found;
}

const AGES = [[1e-3, "1 ms"], [1e-2, "10 ms"], [0.1, "100 ms"], [1, "1 s"], [10, "10 s"], [60, "1 min"], [600, "10 min"],
  [3600, "1 h"], [36000, "10 h"], [345600, "4 d"], [3456000, "40 d"]];

// Ages that people name, about evenly apart on a logarithmic axis, between two positive ones.
export function ageTicks(low, high) {
  return AGES.map(([age]) => age).filter((age) => age >= low * 0.999 && age <= high * 1.001);
}

export function ageWords(age) {
  return AGES.find(([known]) => known === age)[1].replace(" ", "\u00a0");
}
