// What there is to say of one field.

import { make } from "./dom.js";
import { block, facts, fieldList } from "./parts.js";
import { certainty, counted, decimal, listed, pValue, relation, strength, whole } from "./words.js";

/**
 * Return the explanation of a field.
 *
 * @param {string} name
 * @param {object} context {model, report, onPick}; `report` may be null while it is loaded
 */
export function nodeWords(name, { model, report, onPick }) {
  const node = model.nodes.get(name);
  if (node === undefined) {
    return [make("h3.subject", {}, name), make("p", {}, `Window ${whole(model.window.window)} has no such field in its graph.`), exclusion(name, report)];
  }
  const around = model.around(name);
  const changes = model.confirmed.filter((edge) => edge.source === name || edge.target === name);
  return [
    make("h3.subject", {}, name),
    badges(node),
    ruleChange(node, report),
    changes.length ? block("Confirmed changes", ...changes.map((edge) => changeButton(edge, onPick))) : null,
    changes.length || node.changed ? null : make("p.lead", {}, `Nothing about ${name} has changed that a test confirms.`),
    block(
      "Relations now",
      fieldList("depends on", around.parents, onPick),
      fieldList("others that depend on it", around.children, onPick),
      fieldList("depend on each other, direction unknown", around.linked, onPick),
      around.parents.length + around.children.length + around.linked.length ? null : make("p.soft", {}, "None: it tells nothing about the other fields."),
    ),
    block("Around it", make("p", {}, nearWords(name, model)), make("p", {}, reach(name, around.downstream))),
    block("Data", dataFacts(name, report)),
  ];
}

function badges(node) {
  const found = [];
  if (node.target) found.push(make("span.pill", { "data-tone": "target" }, "◎ target"));
  if (node.near_target) found.push(make("span.pill", { "data-tone": "target" }, "next to the target"));
  if (node.changed) found.push(make("span.pill", { "data-kind": "changed" }, "Δ changed"));
  return found.length ? make("p.badges", {}, ...found) : null;
}

function ruleChange(node, report) {
  if (!node.changed) return null;
  const parents = report?.decision.nodes.find((change) => change.name === node.name)?.parents ?? [];
  const lead = parents.length
    ? `For the same values of ${listed(parents)}, ${node.name} now comes out differently than before.`
    : `The values of ${node.name} now come in other shares than before.`;
  return block(
    "What changed",
    make("p.lead", {}, lead),
    facts([["Size", `${decimal(node.effect)} nats per record (${strength(node.effect)})`], ["p-value", pValue(node.p_value)]]),
    make("p", {}, `${certainty(node.p_value)} This is corrected for all tests made.`),
  );
}

/** A confirmed change that can be chosen. */
export function changeButton(edge, onPick) {
  return make("button.change-row", { type: "button", "data-kind": edge.kind, onclick: () => onPick({ edge: [edge.source, edge.target] }) }, make("span.pill", { "data-kind": edge.kind }, edge.kind), make("span.change-name", {}, relation(edge)));
}

/** Say how close the confirmed changes come to a field. */
function nearWords(name, model) {
  const near = [...model.blanket(name)].sort();
  if (!near.length) return `No field is directly around ${name}.`;
  const hit = near.filter((other) => model.touched.has(other));
  if (!model.touched.size) return `Directly around it: ${listed(near)}. No confirmed change touches any of them.`;
  return `Directly around it: ${listed(near)}. ${hit.length ? `Of these, ${listed(hit)} ${hit.length === 1 ? "is" : "are"}` : "None of these is"} touched by the confirmed change.`;
}

function reach(name, downstream) {
  if (!downstream.size) return `No direction that the data compel leads on from ${name}.`;
  return `Along directions that the data compel, ${counted(downstream.size, "field")} ${downstream.size === 1 ? "comes" : "come"} after ${name}: ${listed([...downstream].sort())}.`;
}

function dataFacts(name, report) {
  if (report === null) return make("p.soft", {}, "Loading");
  const missing = report.missing.find((item) => item.name === name)?.share ?? 0;
  const twin = report.twins.find((item) => item.name === name)?.same_as ?? null;
  return facts([
    ["Missing values", missing ? `${(missing * 100).toFixed(missing < 0.01 ? 2 : 1)} %` : "none"],
    ["Always the same as", twin],
    ["Design effect", report.decision.design_effect === null ? null : `${decimal(report.decision.design_effect)} (worst field of the window: how much neighbouring records resemble each other)`],
  ]);
}

function exclusion(name, report) {
  const reason = report?.excluded.find((item) => item.name === name)?.reason;
  return reason ? make("p", {}, `It has no part in the graph: ${reason}.`) : null;
}
