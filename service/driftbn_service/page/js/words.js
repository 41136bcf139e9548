// Numbers, times and changes as people read them.

const STRENGTHS = [[0.001, "none"], [0.01, "weak"], [0.03, "medium"], [0.3, "strong"]];
const SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹";
const SMALLEST_P = 1e-15; // below, a p-value says no more than this
const NUMBER = new Intl.NumberFormat("en");
const MOMENT = new Intl.DateTimeFormat("en", {
  year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", hourCycle: "h23", timeZoneName: "short",
});
const LEAD = /^(Drift in window [\d,]+|Window [\d,]+(, after a drift)?): /;

const CLOCK = new Intl.DateTimeFormat("en", { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const DAY = new Intl.DateTimeFormat("en", { month: "short", day: "numeric" });
const SHORT = 36 * 3600; // seconds: a longer time is told by its days

/** How a stream is: the same words as in every report. */
const STATES = { learning: "Learning", calm: "Calm", changed: "Changed", open: "Changed (open)", unknown: "Cannot tell", failed: "Failed" };

const TOO_FEW = "there are too few records for any test";

/** Return the state at a window, as a word of the style sheet; `open` if its episode is not over. */
export function stateOf(level, episode, reason = null) {
  if (level === "undecided" && reason !== null && reason !== TOO_FEW) return "failed";
  if (level === "drift" || level === "settling" || episode) return episode?.state === "open" ? "open" : "changed";
  if (level === "undecided") return "unknown";
  return level === "learning" ? "learning" : "calm";
}

export function stateWord(state) {
  return STATES[state] ?? state;
}

/** Return a time for an axis of so many seconds. */
export function tickTime(seconds, range) {
  const date = new Date((seconds ?? Number.NaN) * 1000);
  return Number.isNaN(date.getTime()) ? "" : (range < SHORT ? CLOCK : DAY).format(date);
}

export const KINDS = {
  structural: "which fields depend on each other",
  association: "how fields depend on each other",
  mechanism: "how a field comes out for the same values of others",
  marginal: "how often values come",
  data: "what a field itself looks like",
};

export function whole(number) {
  return NUMBER.format(number);
}

export function counted(number, noun, plural = `${noun}s`) {
  return `${whole(number)} ${number === 1 ? noun : plural}`;
}

/** Return a strength or an effect; very small ones are not 0. */
export function decimal(number) {
  if (number === null || number === undefined) return "unknown";
  if (number > 0 && number < 0.0001) return "< 0.0001";
  return String(Number(number.toFixed(number < 0.01 ? 4 : 3)));
}

export function pValue(p) {
  if (p === null || p === undefined) return "not tested";
  if (p < SMALLEST_P) return "< 10⁻¹⁵";
  if (p >= 0.0001) return String(Number(p.toPrecision(2)));
  const [mantissa, exponent] = p.toExponential(0).split("e-");
  return `${mantissa} × 10⁻${[...exponent].map((digit) => SUPERSCRIPTS[digit]).join("")}`;
}

export function strength(nats) {
  if (nats === null || nats === undefined) return "unknown";
  return STRENGTHS.find(([limit]) => nats < limit)?.[1] ?? "very strong";
}

export function moment(seconds) {
  const date = new Date((seconds ?? Number.NaN) * 1000);
  return Number.isNaN(date.getTime()) ? null : MOMENT.format(date);
}

/** Return a headline without the number of the window, which stands beside it. */
export function withoutLead(headline) {
  const rest = headline.replace(LEAD, "");
  return rest.charAt(0).toUpperCase() + rest.slice(1);
}

export function shortened(text, length = 26) {
  return text.length <= length ? text : `${text.slice(0, length - 1)}…`;
}

export function listed(names, most = 6) {
  const shown = names.slice(0, most);
  if (names.length > most) shown.push(`${names.length - most} more`);
  return shown.length < 2 ? shown.join("") : `${shown.slice(0, -1).join(", ")} and ${shown.at(-1)}`;
}

/** Return the relation of an edge: an arrow where the data tell the direction. */
export function relation(edge) {
  return `${edge.source} ${edge.directed ? "→" : "—"} ${edge.target}`;
}

/** Say in a sentence what became of an edge. */
export function edgeSentence(edge) {
  const { source, target } = edge;
  if (edge.confirmed) return confirmedSentence(edge);
  switch (edge.kind) {
    case "added": return `In the graph of this window ${source} and ${target} depend on each other; in that of the window before they did not.`;
    case "removed": return `In the graph of the window before ${source} and ${target} depended on each other; in this one they do not.`;
    case "reversed": return `${source} and ${target} depend on each other as before; the arrow between them points the other way.`;
    default: return edge.directed
      ? `${target} depends on ${source}, as before.`
      : `${source} and ${target} depend on each other, as before; the data do not tell a direction.`;
  }
}

function confirmedSentence({ kind, source, target, directed }) {
  switch (kind) {
    case "added": return directed ? `${target} now depends on ${source}. Before, it did not.` : `${source} and ${target} now depend on each other. Before, they did not.`;
    case "removed": return directed ? `${target} no longer depends on ${source}.` : `${source} and ${target} no longer depend on each other.`;
    default: return `${source} and ${target} still depend on each other, but ${directed ? `now ${target} on ${source}, not the other way round` : "not as before; the data do not tell a direction"}.`;
  }
}

/** Say how hard a p-value is to explain by chance. */
export function certainty(p) {
  if (p === null || p === undefined) return null;
  if (p >= 0.0001) return `If nothing had changed, a difference like this would come up with a probability of ${pValue(p)}.`;
  return `Chance does not explain it: if nothing had changed, a difference like this would come up with a probability of ${pValue(p)}.`;
}
