// What there is to say of one edge.

import { make } from "./dom.js";
import { block, facts, fieldList, strengthNote, strengths } from "./parts.js";
import { certainty, counted, decimal, edgeSentence, pValue, relation, whole } from "./words.js";

const MAX_HISTORY = 12;

/**
 * Return the explanation of an edge.
 *
 * @param {object} edge of the graph model, or null if it is in neither graph
 * @param {object} context {ends, model, history, onPick, onWindow}
 */
export function edgeWords(edge, context) {
  const { ends, model, onPick } = context;
  if (edge === null) {
    return [
      make("h3.subject", {}, `${ends[0]} — ${ends[1]}`),
      make("p", {}, `In window ${whole(model.window.window)} there is no relation between these two fields, and none has just ended.`),
      historyBlock(context),
    ];
  }
  const status = edge.confirmed ? `${edge.kind}, confirmed` : edge.kind === "kept" ? "kept" : `${edge.kind}, not confirmed`;
  return [
    make("h3.subject", {}, relation(edge)),
    make("p", {}, make("span.pill", { "data-kind": edge.confirmed ? edge.kind : "kept" }, status)),
    make("p.lead", {}, edgeSentence(edge)),
    edge.confirmed ? confirmedPart(edge, context) : unconfirmedPart(edge),
    fieldList("The two fields", [edge.source, edge.target], onPick),
    historyBlock(context),
  ];
}

function confirmedPart(edge, { model }) {
  return make(
    "div",
    {},
    strengths(edge.before, edge.after),
    strengthNote(),
    facts([
      ["p-value", pValue(edge.p_value)],
      ["Confirmed in", `window ${whole(model.confirmedWindow)}`],
      ["Compared at equal", edge.given.length ? edge.given.join(", ") : "(nothing held fixed)"],
      ["Direction", edge.directed ? "told by the data" : "not told by the data"],
    ]),
    make("p", {}, `${certainty(edge.p_value)} This is corrected for all tests made.`),
  );
}

function unconfirmedPart(edge) {
  if (edge.kind === "kept") {
    return edge.directed ? null : make("p.soft", {}, "Such an edge is drawn without an arrow.");
  }
  return make("p.soft", {}, "No test confirms that anything changed here. Graphs of neighbouring windows differ like this by chance, so it is no reason to act.");
}

function historyBlock({ history, onWindow }) {
  if (history === null) return block("History", make("p.soft", {}, "Loading"));
  const confirmed = history.filter((item) => item.origin === "confirmed");
  const raw = history.filter((item) => item.origin === "raw");
  return block(
    "History",
    confirmed.length
      ? make("ol.history", {}, ...confirmed.slice(0, MAX_HISTORY).map((item) => make("li", {}, windowButton(item.window, onWindow), make("span.pill", { "data-kind": item.change }, item.change), make("span.soft", {}, `${decimal(item.before)} → ${decimal(item.after)} nats, p ${pValue(item.p_value)}`))))
      : make("p.soft", {}, "No change of this relation has been confirmed in the windows that are kept."),
    raw.length ? chanceLine(raw, onWindow) : null,
  );
}

function chanceLine(raw, onWindow) {
  const shown = raw.slice(0, MAX_HISTORY);
  return make("div.chance", {}, make("p.soft.small", {}, `Seen added, removed or reversed against the window before in ${counted(raw.length, "window")}, as by chance:`), make("div.chips", {}, ...shown.map((item) => windowButton(item.window, onWindow))));
}

function windowButton(index, onWindow) {
  return make("button.chip", { type: "button", onclick: () => onWindow(index) }, make("span.unseen", {}, "Go to window "), whole(index));
}
