// The share of prompt tokens that each tier had, over time, with the changes of the policy.

import { area, baseline, horizontalAxis, line, picture, runs, titled, verticalAxis, widthOf } from "./charts.js";
import { empty, fill, legendItem, svg } from "./dom.js";
import { clock, moment, percent } from "./format.js";
import { KINDS } from "./history.js";
import { linear, ticks, timeTicks } from "./scales.js";

export const TIERS = ["device", "host", "disk"];
const HEIGHT = 250;
const ROOM = { left: 52, right: 12, top: 14, bottom: 28 };

export function pointOf(status) {
  return { at: status.at, hit_fracs: status.tiers.map((tier) => [tier.tier, tier.hit_frac]), saved: status.seconds.saved };
}

// Shares of one point, tier by tier, stacked.
function stacked(point) {
  const shares = new Map(point.hit_fracs);
  let sum = 0;
  const tops = TIERS.map((_, tier) => (sum += shares.get(tier) ?? 0));
  const known = [...shares.values()].some((share) => share !== null);
  return { at: new Date(point.at).getTime(), tops: known ? tops : null };
}

export function drawHits(points, status) {
  fill("hits-legend", status.tiers.map((tier) => legendItem(`c-${TIERS[tier.tier]}`, TIERS[tier.tier], percent(tier.hit_frac))));
  const past = points.map(stacked);
  if (past.filter((point) => point.tops).length < 2) {
    fill("hits", empty("The picture begins with the second round that saw prompts."));
    return;
  }
  const width = widthOf("hits");
  const span = [past[0].at, past.at(-1).at];
  const highest = Math.max(...past.map((point) => point.tops?.at(-1) ?? 0), 0.05);
  const top = ticks(0, 1.15 * highest, 4).at(-1) >= highest ? ticks(0, 1.15 * highest, 4).at(-1) : 1.15 * highest;
  const x = linear(span, [ROOM.left, width - ROOM.right]);
  const y = linear([0, top], [HEIGHT - ROOM.bottom, ROOM.top]);
  const present = new Set(status.tiers.map((tier) => tier.tier));
  const said = status.tiers.map((tier) => `${TIERS[tier.tier]} ${percent(tier.hit_frac)}`).join(", ");
  const node = picture(width, HEIGHT, `Prompt tokens found over time; now ${said}`);
  const days = span[1] - span[0] > 86400000;
  node.append(
    ...verticalAxis(y, ticks(0, top, 4), percent, [ROOM.left, width - ROOM.right]).flat(),
    ...runs(past, (point) => point.tops).flatMap((run) => layers(run, x, y, present)),
    baseline(ROOM.left, width - ROOM.right, HEIGHT - ROOM.bottom),
    ...horizontalAxis(x, timeTicks(...span, Math.max(2, width / 110)), (value) => clock(new Date(value), days), HEIGHT - ROOM.bottom).flat(),
    ...changeMarks(status.history, span, x),
  );
  fill("hits", node);
}

function layers(run, x, y, present) {
  const along = (point) => x(point.at);
  return TIERS.map((name, tier) => ({ name, tier }))
    .filter(({ tier }) => present.has(tier))
    .flatMap(({ name, tier }) => {
      const above = (point) => y(point.tops[tier]);
      const below = (point) => y(tier ? point.tops[tier - 1] : 0);
      return [area(run, along, below, above, `c-${name}`), line(run, along, above, `c-${name}`)];
    });
}

function changeMarks(history, [from, to], x) {
  return history
    .map((change) => ({ change, at: new Date(change.at).getTime() }))
    .filter(({ at, change }) => at >= from && at <= to && KINDS[change.kind]?.marked)
    .map(({ change, at }) => {
      const kind = KINDS[change.kind];
      const mark = svg("g", {},
        svg("line", { class: "mark", x1: x(at), x2: x(at), y1: ROOM.top, y2: HEIGHT - ROOM.bottom }),
        svg("circle", { class: `flat c-${kind.colour}`, cx: x(at), cy: ROOM.top, r: 4.5 }));
      return titled(mark, `${moment(change.at)}: ${kind.words}. ${change.reason}`);
    });
}
