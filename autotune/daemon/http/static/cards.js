// The head of the page: advice, badges, and the figures that matter most.

import { badge, byId, fill, html } from "./dom.js";
import { ago, percent, seconds, times, UNKNOWN } from "./format.js";
import { kept } from "./promises.js";

const PHASES = { starting: "wait", learning: "wait", steady: "good", tuning: "accent", canary: "wait", blind: "bad", stopped: "bad" };
const PHASE_WORDS = { canary: "a policy is on trial", blind: "sees nothing of the engine", tuning: "a search runs" };

export function drawHead(status) {
  byId("verdict").textContent = status.verdict.text;
  const engines = status.targets.map((target) => [target.engine, target.version, target.model].filter(Boolean).join(" ")).filter(Boolean);
  fill("badges",
    badge(`mode ${status.mode}`, "accent"),
    badge(PHASE_WORDS[status.phase] ?? status.phase, PHASES[status.phase] ?? ""),
    status.hands_off ? badge("hands off", "wait") : null,
    badge([status.group, ...new Set(engines)].join(" · "), "plain"));
  document.title = `${status.mode}, ${status.phase} · kv-autotune`;
  byId("foot").textContent = `kv-autotune ${status.version}, started ${ago(status.started_at, new Date(status.at))}`;
  const findings = [...(status.hands_off ? [status.hands_off] : []), ...status.findings];
  byId("findings").hidden = !findings.length;
  fill("findings-list", findings.map((text) => html("li", {}, text)));
}

function card(heading, value, note, kind = "") {
  return html("div", { class: "card" }, html("h2", {}, heading), html("p", { class: `value ${kind}` }, value), html("p", { class: "note" }, note));
}

export function drawCards(status) {
  fill("now", hits(status), saved(status), against(status), promises(status), guard(status));
}

function hits(status) {
  const known = status.tiers.filter((tier) => tier.hit_frac !== null);
  const total = known.reduce((sum, tier) => sum + tier.hit_frac, 0);
  return card("Found in a cache", known.length ? percent(total) : UNKNOWN, "of the prompt tokens, all tiers");
}

function saved(status) {
  const { saved: gain, recompute } = status.seconds;
  const note = recompute === null ? "per second of the last window" : `per second; ${seconds(recompute)} were computed`;
  return card("Prefill avoided", seconds(gain), note);
}

function against(status) {
  const lru = status.shadows.find((shadow) => shadow.name === "lru");
  if (!lru || lru.regret_s === null) return card("Against plain LRU", UNKNOWN, "not measured yet");
  const better = -lru.regret_s;
  const note = better >= 0 ? "more saved than LRU would have" : "less saved than LRU would have";
  return card("Against plain LRU", seconds(Math.abs(better)), note, better >= 0 ? "good" : "bad");
}

function promises(status) {
  const judged = status.predictions.map(kept).filter((answer) => answer !== null);
  const true_ = judged.filter(Boolean).length;
  if (!judged.length) return card("Promises kept", UNKNOWN, "nothing to compare yet");
  return card("Promises kept", `${true_} of ${judged.length}`, "figures within their bounds", true_ === judged.length ? "good" : "wait");
}

function guard(status) {
  const { trips, rollbacks } = status.guard;
  return card("Rolled back", times(rollbacks), `the guard tripped: ${times(trips)}`);
}
