// What all pictures share: a frame that fits its place, axes, lines and areas.

import { byId, svg } from "./dom.js";

export function widthOf(id) {
  return Math.max(240, Math.round(byId(id).clientWidth));
}

// An empty picture; `label` says in words what it shows.
export function picture(width, height, label) {
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": label });
}

export function verticalAxis(scale, values, format, [left, right]) {
  return values.map((value) => [
    svg("line", { class: "grid", x1: left, x2: right, y1: scale(value), y2: scale(value) }),
    svg("text", { x: left - 8, y: scale(value) + 4, "text-anchor": "end" }, format(value)),
  ]);
}

export function horizontalAxis(scale, values, format, y) {
  return values.map((value) => [
    svg("line", { class: "axis", x1: scale(value), x2: scale(value), y1: y, y2: y + 5 }),
    svg("text", { x: scale(value), y: y + 19, "text-anchor": "middle" }, format(value)),
  ]);
}

export function baseline(left, right, y) {
  return svg("line", { class: "axis", x1: left, x2: right, y1: y, y2: y });
}

const at = (x, y) => `${x.toFixed(1)},${y.toFixed(1)}`;

// Runs of points whose value is known: a gap stays a gap.
export function runs(points, value) {
  const found = [];
  let run = [];
  for (const point of points) {
    if (value(point) === null || value(point) === undefined) {
      if (run.length) found.push(run);
      run = [];
    } else {
      run.push(point);
    }
  }
  return run.length ? [...found, run] : found;
}

export function line(points, x, y, colour) {
  const path = points.map((point, index) => `${index ? "L" : "M"}${at(x(point), y(point))}`).join("");
  return svg("path", { class: `curve ${colour}`, d: path });
}

export function area(points, x, below, above, colour) {
  const there = points.map((point, index) => `${index ? "L" : "M"}${at(x(point), above(point))}`);
  const back = [...points].reverse().map((point) => `L${at(x(point), below(point))}`);
  return svg("path", { class: `area flat ${colour}`, d: `${there.join("")}${back.join("")}Z` });
}

export function titled(node, text) {
  node.append(svg("title", {}, text));
  return node;
}
