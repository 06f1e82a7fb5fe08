// Making elements. Text goes in as text, never as markup: names and reasons come from outside.

const SVG = "http://www.w3.org/2000/svg";

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) node.setAttribute(name, String(value));
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

export function html(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

export function byId(id) {
  return document.getElementById(id);
}

export function fill(id, ...children) {
  byId(id).replaceChildren(...children.flat().filter(Boolean));
}

export function empty(text) {
  return html("p", { class: "empty" }, text);
}

export function legendItem(colour, name, value) {
  const parts = [html("i", { class: `swatch ${colour}`, "aria-hidden": "true" }), name];
  if (value) parts.push(html("b", {}, value));
  return html("span", {}, ...parts);
}

export function badge(text, kind = "") {
  return html("span", { class: `badge ${kind}` }, text);
}
