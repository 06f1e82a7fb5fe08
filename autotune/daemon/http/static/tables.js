// What was learned and how healthy the sources are, as curves, tables and facts.

import { baseline, horizontalAxis, line, picture, verticalAxis, widthOf } from "./charts.js";
import { byId, empty, fill, html, legendItem } from "./dom.js";
import { ago, between, byUnit, figure, seconds, times, UNKNOWN, words } from "./format.js";
import { ageTicks, ageWords, linear, logarithmic, ticks } from "./scales.js";

const COLOURS = ["c-device", "c-host", "c-store", "c-good", "c-recompute", "c-preemption", "c-accent", "c-queue"];
const CURVES = { reuse: "Share asked for again within this age" };
const HEIGHT = 250;
const ROOM = { left: 56, right: 14, top: 12, bottom: 30 };

export function drawCurves(status) {
  const curves = status.curves.filter((curve) => curve.ages_s.some((age) => age > 0)).slice(0, COLOURS.length);
  if (!curves.length) {
    fill("curves-legend");
    fill("curves", empty("Too few blocks were asked for again to say anything about ages."));
    return;
  }
  const points = curves.map((curve) => curve.ages_s.map((age, index) => ({ age, value: curve.values[index] })).filter((point) => point.age > 0));
  const ages = points.flat().map((point) => point.age);
  const values = points.flat().map((point) => point.value);
  const width = widthOf("curves");
  const span = [Math.min(...ages), Math.max(...ages) || 1];
  const x = logarithmic(span, [ROOM.left, width - ROOM.right]);
  const highest = Math.max(...values, 1e-12);
  const y = linear([Math.min(0, ...values), 1.05 * highest], [HEIGHT - ROOM.bottom, ROOM.top]);
  const node = picture(width, HEIGHT, `Value over age for ${curves.map((curve) => curve.name).join(", ")}`);
  node.append(
    ...verticalAxis(y, ticks(Math.min(0, ...values), highest, 4), figure, [ROOM.left, width - ROOM.right]).flat(),
    baseline(ROOM.left, width - ROOM.right, HEIGHT - ROOM.bottom),
    ...horizontalAxis(x, ageTicks(...span), ageWords, HEIGHT - ROOM.bottom).flat(),
    ...points.map((run, index) => line(run, (point) => x(point.age), (point) => y(point.value), COLOURS[index])),
  );
  fill("curves-legend", curves.map((curve, index) => legendItem(COLOURS[index], CURVES[curve.name] ?? words(curve.name))));
  fill("curves", node);
}

function table(id, heads, rows) {
  const head = html("thead", {}, html("tr", {}, heads.map(([text, kind]) => html("th", { scope: "col", class: kind }, text))));
  byId(id).replaceChildren(head, html("tbody", {}, rows));
}

export function drawEstimates(status) {
  const rows = status.estimates.map((estimate) => html("tr", {},
    html("th", { scope: "row" }, words(estimate.name) + (estimate.unit.startsWith("s/") ? ` per ${estimate.unit.slice(2)}` : "")),
    html("td", {}, byUnit(estimate.unit, estimate.value)),
    html("td", {}, estimate.low === null || estimate.high === null ? UNKNOWN : between(byUnit(estimate.unit, estimate.low), byUnit(estimate.unit, estimate.high))),
    html("td", {}, estimate.samples.toLocaleString("en")),
    html("td", {}, seconds(estimate.age_s))));
  const none = html("tr", {}, html("td", { colspan: "5", class: "text" }, "Nothing yet."));
  table("estimates", [["", ""], ["best", ""], ["bounds", ""], ["samples", ""], ["age", ""]], rows.length ? rows : [none]);
}

export function drawSources(status) {
  const rows = status.targets.flatMap((target) => {
    const said = [target.engine ?? "unknown engine", target.version, target.model].filter(Boolean).join(" ");
    const facts = `${said}; evidence: ${target.grade.replaceAll("_", " ")}; epoch ${target.epoch}`;
    const first = html("tr", {}, html("th", { scope: "rowgroup", colspan: "5", class: "target" },
      html("span", { class: "state" }, state(target.alive, `${target.url} ${target.alive ? "answers" : "does not answer"}`)),
      html("span", { class: "more" }, facts)));
    return [first, ...target.sources.map(sourceRow)];
  });
  table("sources", [["source", "text"], ["state", "text"], ["age", ""], ["lost", ""], ["", "text"]], rows);
}

function sourceRow(source) {
  return html("tr", {},
    html("th", { scope: "row", class: "text" }, source.name.replaceAll("_", " ")),
    html("td", { class: "text" }, state(source.ok, source.ok ? "ok" : "failed")),
    html("td", {}, seconds(source.age_s)),
    html("td", {}, source.lost.toLocaleString("en")),
    html("td", { class: "wrap" }, source.error ?? (source.seconds === null ? "" : `took ${seconds(source.seconds)}`)));
}

function state(good, text) {
  return html("span", { class: "state" }, html("i", { class: `dot ${good ? "c-good" : "c-bad"}`, "aria-hidden": "true" }), text);
}

export function drawGuard(status) {
  const { guard, retune } = status;
  const now = new Date(status.at);
  const due = retune.next_at ? `in ${seconds(Math.max(0, Math.round((new Date(retune.next_at) - now) / 1000)))}` : "not by time";
  const facts = [
    ["Guard tripped", times(guard.trips)],
    ["Rolled back", times(guard.rollbacks)],
    ["Last reason", guard.last_reason ?? UNKNOWN],
    ["Search", retune.running ? "running now" : "not running"],
    ["Last search", retune.last_at ? `${ago(retune.last_at, now)}, took ${seconds(retune.last_seconds)}` : "none yet"],
    ["Started because", retune.reason ?? UNKNOWN],
    ["It found", retune.found ?? UNKNOWN],
    ["Next search", due],
    ["Live policy", status.live_hash ?? "none published"],
    ["Confirmed", status.confirmed_hash ?? "none"],
  ];
  fill("guard", facts.map(([name, text]) => html("div", {}, html("dt", {}, name), html("dd", {}, text))));
}
