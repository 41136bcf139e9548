// The relations as a table: the same as the graph, for those who do not see it.

import { byId, fill, make } from "./dom.js";
import { decimal, pValue, relation, strength } from "./words.js";

const ORDER = { removed: 0, added: 1, reversed: 2, kept: 3 };

/** Show edges as rows, changes first; `onPick` is called with the one that the user chooses. */
export function showTable(edges, chosen, onPick) {
  const sorted = [...edges].sort((a, b) => b.confirmed - a.confirmed || ORDER[a.kind] - ORDER[b.kind] || relation(a).localeCompare(relation(b)));
  fill(byId("edge-rows"), sorted.map((edge) => row(edge, edge.id === chosen, onPick)));
}

function row(edge, chosen, onPick) {
  const button = make("button.link", { type: "button", "aria-pressed": String(chosen), onclick: () => onPick({ edge: [edge.source, edge.target] }) }, relation(edge));
  return make(
    "tr",
    { "data-kind": edge.kind, "data-confirmed": String(edge.confirmed), "aria-current": chosen ? "true" : null },
    make("th", { scope: "row" }, button),
    make("td", {}, change(edge)),
    make("td.number", {}, nats(edge.before)),
    make("td.number", {}, nats(edge.after)),
    make("td.number", {}, edge.confirmed ? pValue(edge.p_value) : "–"),
  );
}

function nats(found) {
  return found ? `${strength(found.nats)} ${decimal(found.nats)}` : "–";
}

function change(edge) {
  if (edge.confirmed) return make("span.pill", { "data-kind": edge.kind }, edge.kind);
  return edge.kind === "kept" ? make("span.soft", {}, "kept") : make("span.soft", {}, `${edge.kind}, not confirmed`);
}
