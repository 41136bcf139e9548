// What there is to say of a window, or of the episode that it belongs to.

import { actionsBlock } from "./actions.js";
import { make } from "./dom.js";
import { changeButton } from "./inspect_node.js";
import { block, facts, fieldButton, strengthNote, strengths } from "./parts.js";
import { KINDS, counted, decimal, listed, moment, pValue, stateOf, stateWord, strength, whole, withoutLead } from "./words.js";

const MAX_CHANGES = 8;
const MAX_DETAILED = 3;

/** Whether nothing further changes in a window that belongs to an episode. */
function isCalm(report, episode) {
  return episode !== null && report.decision.level === "stable";
}

/** Return the headline of a window: what changed, or that nothing further does. */
export function headlineOf(report, explanation, episode) {
  if (!isCalm(report, episode)) return withoutLead(explanation.headline);
  const state = episode.state === "open" ? `Episode ${episode.episode} is open` : `Episode ${episode.episode}`;
  return `Nothing further changed. ${state}: ${withoutLead(episode.headline)}`;
}

/**
 * Return the explanation of a window, or of the episode if one is chosen.
 *
 * @param {object} context {model, detail, episode, told, chosen, onPick}: `detail` is the answer of
 *   /windows, `episode` the one that the window belongs to or null, `told` the answer of /episodes
 *   for it, and `chosen` whether the user has chosen it
 */
export function windowWords({ model, detail, episode, told, chosen, onPick }) {
  const { report } = detail;
  const calm = isCalm(report, episode);
  const explanation = (chosen || calm ? told?.explanation : null) ?? detail.explanation;
  const changed = model.touched.size > 0;
  const state = stateOf(report.decision.level, episode, report.decision.reason);
  return [
    make("p", {}, make("span.pill", { "data-state": state }, stateWord(state))),
    make("p.headline-words", {}, chosen ? withoutLead(explanation.headline) : headlineOf(report, detail.explanation, episode)),
    calm && !chosen && told ? make("p.soft", {}, `As told in window ${whole(told.explained_window)}:`) : null,
    make("ul.sentences", {}, ...explanation.sentences.map((text) => make("li", {}, text))),
    explanation.advice.length ? block("What to do", make("ul.advice", {}, ...explanation.advice.map((text) => make("li", {}, text)))) : null,
    changesBlock(model, onPick, calm),
    facts(windowFacts(model, detail, episode)),
    blastRadius(model, report, onPick),
    actionsBlock(episode, told),
    changed ? null : block("The graph", make("p", {}, sizeWords(model))),
    explanation.details.length ? make("details.block", {}, make("summary", {}, chosen || calm ? `How strong, how sure: window ${whole(told?.explained_window ?? model.window.window)}` : "How strong, how sure, and what the words mean"), make("ul.sentences", {}, ...explanation.details.map((text) => make("li", {}, text)))) : null,
    dataNotes(report),
  ];
}

function sizeWords(model) {
  const differ = model.unconfirmed.length;
  const words = `${counted(model.nodes.size, "field")} and ${counted([...model.edges.values()].filter((edge) => edge.present).length, "relation")} between them.`;
  return differ ? `${words} ${counted(differ, "relation")} ${differ === 1 ? "differs" : "differ"} from the window before, as by chance.` : words;
}

function windowFacts(model, { report, summary }, episode) {
  const { decision } = report;
  const { window } = model;
  const found = [];
  if (episode !== null) {
    const ended = episode.ended_window === null ? "still open" : `ended in window ${whole(episode.ended_window)}`;
    const record = episode.started_record === null ? null : `record ${whole(episode.started_record)}`;
    found.push(["Since", [`window ${whole(episode.started_window)}`, record, moment(episode.started_time) ?? (episode.completed === null ? null : `complete ${moment(episode.completed)}`)].filter(Boolean).join(", ")]);
    found.push(["Episode", `${episode.episode}, ${ended}${episode.recurring ? "; back to an earlier state" : ""}`]);
  }
  if (decision.p_value !== null && decision.level !== "learning") found.push(["How sure", sureness(decision, episode)]);
  if (decision.effect !== null && decision.drift) found.push(["Size", `${decimal(decision.effect)} nats (${strength(decision.effect)})`]);
  const strongest = strongestSign(decision);
  if (strongest !== null) found.push(["Clearest", strongest]);
  if (decision.kind !== null) found.push(["What kind", KINDS[decision.kind]]);
  found.push(["Records", `${whole(window.first_record)} to ${whole(window.last_record)}`]);
  if (episode === null) found.push(["Time", moment(window.end) ?? `complete ${moment(summary.stored)}`]);
  return found;
}

/** Say where the evidence is strongest; a relation that no graph has is told nowhere else. */
function strongestSign({ families, alpha, level }) {
  if (level === "stable" || !families.length) return null;
  const best = families.reduce((least, family) => ((family.p_value ?? 1) < (least.p_value ?? 1) ? family : least));
  if (!best.fields.length || (best.p_value ?? 1) > (alpha ?? 0)) return null;
  return best.family === "association" ? `how ${listed(best.fields)} depend on each other` : `the values of ${listed(best.fields)}`;
}

function sureness({ p_value: p, alpha, level }, episode) {
  if (level === "stable") return `no sign of a ${episode === null ? "" : "further "}change (p-value ${pValue(p)})`;
  return `p-value ${pValue(p)}${alpha === null ? "" : ` (alarm at ${pValue(alpha)})`}`;
}

function changesBlock(model, onPick, calm) {
  const { confirmed, changedNodes } = model;
  if (!confirmed.length && !changedNodes.length) return null;
  const strongest = [...confirmed].sort((a, b) => (a.p_value ?? 1) - (b.p_value ?? 1)).slice(0, MAX_CHANGES);
  const more = confirmed.length - strongest.length;
  const detailed = confirmed.length <= MAX_DETAILED;
  return block(
    calm ? `Changes confirmed in window ${whole(model.confirmedWindow)}` : "Confirmed changes",
    ...strongest.map((edge) => make("div.change", {}, changeButton(edge, onPick), detailed ? strengths(edge.before, edge.after) : null)),
    confirmed.length && detailed ? strengthNote() : null,
    more > 0 ? make("p.soft", {}, `and ${counted(more, "more edge")}: see the table.`) : null,
    ...changedNodes.slice(0, MAX_CHANGES).map((node) => make("button.change-row", { type: "button", "data-kind": "changed", onclick: () => onPick({ node: node.name }) }, make("span.pill", { "data-kind": "changed" }, "Δ changed"), make("span.change-name", {}, node.name))),
  );
}

/** Say which fields around the target are touched. */
function blastRadius(model, report, onPick) {
  const { touched } = model;
  if (report.target === null) return null;
  const near = [...new Set([...report.blanket, ...[...model.nodes.values()].filter((node) => node.near_target).map((node) => node.name)])];
  const hit = near.filter((name) => touched.has(name));
  const itself = touched.has(report.target);
  let words;
  if (!touched.size) words = `Nothing confirmed touches ${report.target}, the field that matters to you.`;
  else if (itself) words = `The change touches ${report.target} itself, the field that matters to you.`;
  else if (hit.length) words = `The change touches ${hit.length} of ${counted(near.length, "field")} directly around ${report.target}.`;
  else words = `The change does not touch ${report.target} nor any of the ${counted(near.length, "field")} directly around it.`;
  return block(
    "Around the target",
    make("p", { class: itself || hit.length ? "warn" : "" }, words),
    make("div.chips", {}, fieldChip(report.target, touched, onPick, true), ...near.map((name) => fieldChip(name, touched, onPick, false))),
  );
}

function fieldChip(name, touched, onPick, target) {
  const chip = fieldButton(name, onPick);
  if (target) chip.prepend("◎ ");
  if (touched.has(name)) {
    chip.classList.add("touched");
    chip.append(make("span", {}, " touched"));
  }
  return chip;
}

function dataNotes(report) {
  const notes = [];
  if (report.degraded) notes.push("A limit stopped learning, so the graph is that of an earlier window.");
  if (report.events.length) notes.push(`The columns or values differ from what was expected: ${listed([...new Set(report.events.map((event) => event.column ?? event.kind))])}.`);
  if (report.excluded.length) notes.push(`Without part in the graph: ${listed(report.excluded.map((item) => item.name))}.`);
  const missing = report.missing.filter((item) => item.share > 0.05);
  if (missing.length) notes.push(`Many values are missing in ${listed(missing.map((item) => item.name))}.`);
  return notes.length ? block("About the data", ...notes.map((text) => make("p", {}, text))) : null;
}
