// What the lines and marks of the graph mean, with how many there are.

import { byId, fill, make } from "./dom.js";
import { counted } from "./words.js";

const KINDS = ["kept", "added", "removed", "reversed"];

/** Show the legend of a graph. */
export function showLegend(model, noise) {
  const shown = model.shown(noise);
  const items = KINDS.map((kind) => {
    const number = shown.filter((edge) => edge.kind === kind).length;
    return make("li", { "data-kind": kind, class: number ? null : "none" }, make("span.key-line", { "data-kind": kind }), `${kind} ${number}`);
  });
  if (model.changedNodes.length) items.push(make("li", { "data-kind": "changed" }, make("span.key-box", { "data-kind": "changed" }, "Δ"), "field changed"));
  if (model.target !== null) items.push(make("li", {}, make("span.key-box", { "data-kind": "target" }, "◎"), "target, fields next to it"));
  fill(byId("legend"), items);
  const number = model.unconfirmed.length;
  byId("noise-words").textContent = number
    ? `Show ${counted(number, "unconfirmed difference")} (chance)`
    : "No unconfirmed difference";
  byId("noise").disabled = number === 0;
}

/** Describe the graph for those who do not see it. */
export function graphLabel(model) {
  const { confirmed, changedNodes } = model;
  const changes = confirmed.map((edge) => `${edge.source} to ${edge.target} ${edge.kind}`);
  changes.push(...changedNodes.map((node) => `${node.name} changed`));
  const words = changes.length ? `Confirmed changes: ${changes.slice(0, 10).join("; ")}.` : "No confirmed change.";
  return `Graph of ${counted(model.nodes.size, "field")} and ${counted(model.edges.size, "relation")} in window ${model.window.window}. ${words} The table shows the same.`;
}
