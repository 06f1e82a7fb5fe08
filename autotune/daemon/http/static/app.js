// Asks for the status every few seconds and draws it.

import { drawCards, drawHead } from "./cards.js";
import { byId } from "./dom.js";
import { seconds } from "./format.js";
import { drawHistory } from "./history.js";
import { drawMemory, drawPromises, drawSeconds, drawShadows } from "./promises.js";
import { drawCurves, drawEstimates, drawGuard, drawSources } from "./tables.js";
import { drawHits, pointOf } from "./trend.js";

const EVERY_MS = 5000;
const MAX_POINTS = 720;
const TOKEN_KEY = "kv-autotune-token";
const page = { status: null, points: [], seenAt: null, needsTrend: true };

async function ask(path) {
  const token = sessionStorage.getItem(TOKEN_KEY);
  const answer = await fetch(path, {
    cache: "no-store",
    headers: token ? { Authorization: `Bearer ${token}` } : {},
    signal: AbortSignal.timeout(EVERY_MS),
  });
  byId("token-form").hidden = answer.status !== 401;
  if (!answer.ok) throw new Error(answer.status === 401 ? "the token is needed" : `the answer was ${answer.status}`);
  return answer.json();
}

function remember(status) {
  if (page.points.at(-1)?.at !== status.at) page.points.push(pointOf(status));
  page.points.splice(0, page.points.length - MAX_POINTS);
}

function draw() {
  const { status, points } = page;
  if (!status) return;
  drawHead(status);
  drawCards(status);
  drawHits(points, status);
  for (const part of [drawSeconds, drawMemory, drawPromises, drawShadows, drawHistory, drawCurves, drawEstimates, drawGuard, drawSources]) part(status);
  document.documentElement.dataset.drawn = status.at;
}

function showPulse(problem) {
  const fresh = !problem && page.seenAt !== null;
  byId("pulse").dataset.state = fresh ? "fresh" : problem ? "lost" : "waiting";
  byId("pulse-text").textContent = fresh ? "live, every 5 s" : problem ? "no answer" : "waiting for the first figures";
  const alert = byId("alert");
  alert.hidden = !problem;
  const since = page.seenAt ? `, for ${seconds(Math.round((Date.now() - page.seenAt) / 1000))}` : "";
  if (problem) alert.textContent = `The sidecar does not answer${since}: ${problem}. What is below is the last that was seen.`;
}

async function round() {
  try {
    if (page.needsTrend) {
      page.points = (await ask("/v1/trend")).points;
      page.needsTrend = false;
    }
    page.status = await ask("/v1/status");
  } catch (problem) {
    page.needsTrend = true; // whatever was missed meanwhile
    showPulse(problem.message);
    return;
  }
  page.seenAt = Date.now();
  remember(page.status);
  showPulse(null);
  draw();
}

byId("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem(TOKEN_KEY, byId("token").value);
  byId("token").value = "";
  round();
});
let width = window.innerWidth;
window.addEventListener("resize", () => {
  if (window.innerWidth !== width) draw();
  width = window.innerWidth;
});
document.addEventListener("visibilitychange", () => document.hidden || round());
setInterval(() => document.hidden || round(), EVERY_MS);
round();
