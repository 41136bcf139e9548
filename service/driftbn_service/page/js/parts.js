// Pieces that several explanations are put together from.

import { make } from "./dom.js";
import { decimal, strength } from "./words.js";

/** A name that can be chosen. */
export function fieldButton(name, onPick) {
  return make("button.chip", { type: "button", onclick: () => onPick({ node: name }) }, name);
}

/** Names that can be chosen, under a heading; null if there are none. */
export function fieldList(title, names, onPick) {
  if (!names.length) return null;
  return make("div.field-list", {}, make("h4", {}, title), make("div.chips", {}, ...names.map((name) => fieldButton(name, onPick))));
}

/** A heading with what belongs to it; null if nothing does. */
export function block(title, ...children) {
  const found = children.filter((child) => child !== null);
  return found.length ? make("section.block", {}, make("h3", {}, title), ...found) : null;
}

/** Facts as pairs; those without a value are left out. */
export function facts(pairs) {
  const rows = pairs.filter(([, value]) => value !== null && value !== undefined);
  return make("dl.facts", {}, ...rows.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))));
}

/** What the numbers of a strength mean. */
export function strengthNote() {
  return make("p.soft.small", {}, "Strength in nats with 95 % interval; 0 is none, 0.03 and more is strong.");
}

/** How strongly two fields depend on each other, before and now, each with its interval. */
export function strengths(before, after) {
  const top = Math.max(0.01, before?.high ?? 0, after?.high ?? 0) * 1.05;
  return make("div.strengths", {}, strengthRow("before", before, top), strengthRow("now", after, top));
}

function strengthRow(name, found, top) {
  if (!found || found.nats === null) return make("div.strength", {}, make("span.strength-name", {}, name), make("span.soft", {}, "unknown"));
  const share = (value) => `${Math.min(100, Math.max(0, (value / top) * 100))}%`;
  const range = make("span.strength-range");
  range.style.left = share(found.low ?? found.nats);
  range.style.width = share((found.high ?? found.nats) - (found.low ?? found.nats));
  const point = make("span.strength-point");
  point.style.left = share(found.nats);
  const words = `${strength(found.nats)}, ${decimal(found.nats)}`;
  const interval = found.low === null ? null : make("span.unseen", {}, ` nats, 95 % interval ${decimal(found.low)} to ${decimal(found.high)}`);
  const title = found.low === null ? null : `95 % interval ${decimal(found.low)} to ${decimal(found.high)} nats`;
  return make("div.strength", { title, "data-when": name }, make("span.strength-name", {}, name), make("span.strength-track", { "aria-hidden": "true" }, range, point), make("span.strength-words", {}, words, interval));
}
