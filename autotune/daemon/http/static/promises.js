// Rows of bars: where seconds go, room on the tiers, regret, and what was promised against what came.

import { picture, titled, widthOf } from "./charts.js";
import { empty, fill, svg } from "./dom.js";
import { between, byName, bytes, percent, seconds, words } from "./format.js";
import { linear } from "./scales.js";
import { TIERS } from "./trend.js";

const ROW = 34;
const COSTS = [
  ["recompute", "Recompute", "c-recompute"],
  ["load", "Load from the host", "c-load"],
  ["exposed_store", "Stores waited for", "c-store"],
  ["queue", "Waiting in the queue", "c-queue"],
  ["preemption", "Lost to preemption", "c-preemption"],
];

const known = (value) => value !== null && value !== undefined;
const rate = (value) => `${seconds(value)}/s`;

// A name and a figure above a bar.
function row(y, width, name, value) {
  return [
    svg("text", { class: "label", x: 0, y: y + 12 }, name),
    svg("text", { class: "strong", x: width, y: y + 12, "text-anchor": "end" }, value),
  ];
}

function bar(x, y, width, colour) {
  return svg("rect", { class: `flat ${colour}`, x, y: y + 18, width: Math.max(width, 1.5), height: 8, rx: 4 });
}

function track(y, width) {
  return svg("rect", { class: "track", x: 0, y: y + 18, width, height: 8, rx: 4 });
}

export function drawSeconds(status) {
  const costs = COSTS.map(([key, name, colour]) => [name, status.seconds[key], colour]);
  const all = [...costs, ["Prefill that hits avoided", status.seconds.saved, "c-good"]];
  if (!all.some(([, value]) => known(value))) {
    fill("seconds", empty("Not known yet: two rounds with traffic are needed."));
    return;
  }
  const width = widthOf("seconds");
  const length = linear([0, Math.max(...all.map(([, value]) => value ?? 0), 1e-9)], [0, width]);
  const height = ROW * all.length + 16;
  const node = picture(width, height, all.map(([name, value]) => `${name}: ${rate(value)}`).join("; "));
  all.forEach(([name, value, colour], index) => {
    const last = index === all.length - 1;
    const y = ROW * index + (last ? 14 : 0);
    if (last) node.append(svg("line", { class: "axis", x1: 0, x2: width, y1: y - 6, y2: y - 6 }));
    node.append(...row(y, width, name, known(value) ? rate(value) : "not known"), track(y, width));
    if (value) node.append(bar(0, y, length(value), colour));
  });
  fill("seconds", node);
}

export function drawMemory(status) {
  if (!status.tiers.length) {
    fill("memory", empty("No tier is known yet."));
    return;
  }
  const width = widthOf("memory");
  const tall = 58;
  const node = picture(width, tall * status.tiers.length, "How full each tier is");
  status.tiers.forEach((tier, index) => {
    const y = tall * index;
    const share = known(tier.used_bytes) && tier.capacity_bytes ? tier.used_bytes / tier.capacity_bytes : null;
    const used = roomWords(tier);
    node.append(...row(y, width, words(TIERS[tier.tier]), known(share) ? `${percent(share)}` : "not known"), track(y, width));
    if (known(share)) node.append(bar(0, y, Math.min(1, share) * width, `c-${TIERS[tier.tier]}`));
    const flows = [["in", tier.store_bytes_per_s], ["out", tier.load_bytes_per_s]].filter(([, value]) => known(value));
    const said = [used, ...flows.map(([name, value]) => `${name} ${bytes(value)}/s`)].join("  ·  ");
    node.append(svg("text", { x: 0, y: y + 42 }, said));
  });
  fill("memory", node);
}

function roomWords(tier) {
  if (!known(tier.capacity_bytes)) return known(tier.used_bytes) ? `${bytes(tier.used_bytes)} used` : "size not known";
  return known(tier.used_bytes) ? `${bytes(tier.used_bytes)} of ${bytes(tier.capacity_bytes)}` : `of ${bytes(tier.capacity_bytes)}`;
}

export function drawShadows(status) {
  const shown = status.shadows.filter((shadow) => shadow.name !== "live");
  if (!shown.some((shadow) => known(shadow.regret_s))) {
    fill("shadows", empty("No other policy has run beside the live one for long enough."));
    return;
  }
  const width = widthOf("shadows");
  const values = shown.map((shadow) => shadow.regret_s ?? 0);
  const low = Math.min(0, ...values);
  const high = Math.max(0, ...values);
  const x = linear([low - 0.02 * (high - low), high + 0.02 * (high - low)], [0, width]);
  const height = ROW * shown.length + 4;
  const node = picture(width, height, shown.map((shadow) => `${words(shadow.name)}: ${said(shadow)}`).join("; "));
  shown.forEach((shadow, index) => {
    const y = ROW * index;
    node.append(...row(y, width, words(shadow.name), said(shadow)), track(y, width));
    if (known(shadow.regret_s)) {
      const [from, to] = [x(Math.min(0, shadow.regret_s)), x(Math.max(0, shadow.regret_s))];
      node.append(titled(bar(from, y, to - from, shadow.regret_s > 0 ? "c-bad" : "c-good"), `sees ${percent(shadow.sampled_frac)} of the blocks`));
    }
    node.append(svg("line", { class: "zero", x1: x(0), x2: x(0), y1: y + 16, y2: y + 30 }));
  });
  fill("shadows", node);
}

function said(shadow) {
  if (!known(shadow.regret_s)) return "not known";
  if (shadow.regret_s === 0) return "the same";
  return `${seconds(Math.abs(shadow.regret_s))} ${shadow.regret_s > 0 ? "better" : "worse"}`;
}

export function drawPromises(status) {
  if (!status.predictions.length) {
    fill("promises", empty("No policy is in force that promised anything."));
    return;
  }
  const width = widthOf("promises");
  const tall = 50;
  const node = picture(width, tall * status.predictions.length, status.predictions.map(promise).join("; "));
  status.predictions.forEach((prediction, index) => node.append(...promiseRow(prediction, tall * index, width)));
  fill("promises", node);
}

export function kept(prediction) {
  if (!known(prediction.observed)) return null;
  return prediction.low <= prediction.observed && prediction.observed <= prediction.high;
}

function promise({ signal, predicted, observed, ...rest }) {
  const seen = known(observed) ? byName(signal, observed) : "not known yet";
  return `${words(signal)}: promised ${byName(signal, predicted)}, came ${seen}${kept({ observed, ...rest }) === false ? ", outside" : ""}`;
}

function promiseRow(prediction, y, width) {
  const { signal, predicted, low, high, observed } = prediction;
  const inside = kept(prediction);
  const values = [low, high, predicted, ...(known(observed) ? [observed] : [])];
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const room = 0.18 * (most - least) || Math.abs(most) || 1;
  const x = linear([least - room, most + room], [8, width - 8]);
  const bounds = between(byName(signal, low), byName(signal, high));
  const verdict = inside === null ? "not known yet" : `${byName(signal, observed)}${inside ? "" : ", outside"}`;
  const parts = [
    ...row(y, width, words(signal), verdict),
    svg("rect", { class: "track", x: 0, y: y + 17, width, height: 12, rx: 6 }),
    titled(svg("rect", { class: `band ${inside === false ? "bad" : ""}`, x: x(low), y: y + 17, width: Math.max(2, x(high) - x(low)), height: 12, rx: 4 }), bounds),
    svg("line", { class: "middle", x1: x(predicted), x2: x(predicted), y1: y + 15, y2: y + 31 }),
    svg("text", { x: 0, y: y + 43 }, `promised ${byName(signal, predicted)}, ${bounds}`),
  ];
  if (known(observed)) parts.push(svg("circle", { class: `seen ${inside ? "" : "bad"}`, cx: x(observed), cy: y + 23, r: 7 }));
  return parts;
}

