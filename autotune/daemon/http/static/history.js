// The timeline of changes: a strip, and the list with reasons and the way back.

import { baseline, horizontalAxis, picture, titled, widthOf } from "./charts.js";
import { badge, empty, fill, html, svg } from "./dom.js";
import { between, clock, moment, percent } from "./format.js";
import { linear, timeTicks } from "./scales.js";

// Kind of a change: in words, its colour, and whether the curves mark it.
export const KINDS = {
  recommended: { words: "recommended", colour: "accent", marked: false },
  canary_started: { words: "trial started", colour: "wait", marked: true },
  canary_kept: { words: "kept", colour: "good", marked: true },
  rolled_back: { words: "rolled back", colour: "bad", marked: true },
  lease_expired: { words: "lease expired", colour: "bad", marked: true },
  let_go: { words: "left to the administrator", colour: "muted", marked: true },
  mode_changed: { words: "mode changed", colour: "muted", marked: false },
  detached: { words: "detached", colour: "muted", marked: true },
  recovered: { words: "recovered", colour: "wait", marked: true },
};
const OTHER = { words: "changed", colour: "muted", marked: false };
const SHOWN = 12;
const HEIGHT = 66;
const SIDE = 16;

const kindOf = (change) => KINDS[change.kind] ?? OTHER;

export function drawHistory(status) {
  if (!status.history.length) {
    fill("timeline", empty(status.mode === "observe" ? "Nothing was changed. In the mode observe nothing ever is." : "Nothing was changed yet."));
    fill("changes");
    return;
  }
  fill("timeline", strip(status));
  const newest = [...status.history].reverse();
  fill("changes", newest.slice(0, SHOWN).map(entry));
  if (newest.length > SHOWN) {
    document.getElementById("changes").append(html("li", { class: "more" }, `${newest.length - SHOWN} older ones: /v1/history`));
  }
}

function strip(status) {
  const width = widthOf("timeline");
  const moments = status.history.map((change) => new Date(change.at).getTime());
  const to = Math.max(new Date(status.at).getTime(), ...moments);
  const from = Math.min(...moments) - 0.03 * (to - Math.min(...moments)) - 1000;
  const x = linear([from, to], [SIDE, width - SIDE]);
  const node = picture(width, HEIGHT, `${status.history.length} changes; the newest: ${kindOf(status.history.at(-1)).words}`);
  const days = to - from > 86400000;
  node.append(
    ...trials(status.history, x, to),
    baseline(SIDE, width - SIDE, 30),
    ...horizontalAxis(x, timeTicks(from, to, Math.max(2, width / 120)), (value) => clock(new Date(value), days), 30).flat(),
    ...status.history.map((change, index) => {
      const place = { class: `flat c-${kindOf(change).colour}`, cx: x(moments[index]), cy: 30, r: 7 };
      return titled(svg("circle", place), `${moment(change.at)}: ${kindOf(change).words}. ${change.reason}`);
    }),
  );
  return node;
}

// The time that each trial took, as a bar behind the marks.
function trials(history, x, end) {
  const bars = [];
  history.forEach((change, index) => {
    if (change.kind !== "canary_started") return;
    const last = history.slice(index + 1).find((other) => other.kind !== "mode_changed" && other.kind !== "recommended");
    const from = x(new Date(change.at).getTime());
    const to = x(last ? new Date(last.at).getTime() : end);
    const colour = last ? kindOf(last).colour : "wait";
    bars.push(svg("rect", { class: `flat area c-${colour}`, x: from, y: 26, width: Math.max(1, to - from), height: 8, rx: 4 }));
  });
  return bars;
}

function entry(change) {
  const kind = kindOf(change);
  const what = [badge(kind.words, kind.colour)];
  if (change.expected_low_frac !== null && change.expected_high_frac !== null) {
    what.push(html("span", {}, `expected gain ${between(percent(change.expected_low_frac), percent(change.expected_high_frac))}`));
  }
  if (change.from_hash !== change.to_hash) {
    what.push(html("span", { class: "more" }, html("code", {}, change.from_hash ?? "none"), " → ", html("code", {}, change.to_hash ?? "none")));
  }
  return html("li", {},
    html("time", { datetime: change.at }, moment(change.at)),
    html("div", {},
      html("div", { class: "what" }, what),
      html("div", { class: "why" }, change.reason),
      html("div", { class: "more" }, `Undo: ${change.undo}`)));
}
