// Which monitors there are, how they are, and switching between them.

import { askAll } from "./api.js";
import { Combobox } from "./combobox.js";
import { byId } from "./dom.js";
import { counted, stateOf, stateWord, whole } from "./words.js";

const TROUBLED = new Set(["waiting", "failed", "stopped"]);
const RANK = { drift: 0, trouble: 1, calm: 2, learning: 3 };

/** The list of monitors and the field that switches between them. */
export class Monitors {
  #all = [];
  #current = null;
  #box;

  /** @param {(place: {name: string, key: string}) => void} onPick */
  constructor(onPick) {
    this.#box = new Combobox(byId("monitor"), byId("monitor-list"), {
      choices: () => this.#all.map((monitor) => ({ label: label(monitor), detail: stateWords(monitor), tone: tone(monitor), monitor })),
      onPick: ({ monitor }) => onPick({ name: monitor.name, key: monitor.key }),
      text: () => (this.#current === null ? "" : label(this.#current)),
      nothing: "No stream has this name",
    });
  }

  /** Fetch the list; those that need attention come first. */
  async load() {
    const found = await askAll("streams");
    found.sort((a, b) => RANK[tone(a)] - RANK[tone(b)] || label(a).localeCompare(label(b)));
    this.#all = found;
    if (this.#current !== null) this.show(this.#current);
  }

  get size() {
    return this.#all.length;
  }

  find({ name, key }) {
    return this.#all.find((monitor) => monitor.name === name && monitor.key === key) ?? null;
  }

  /** Return the monitor to show when none is named: one of a name, or the first that has windows. */
  usual(name) {
    const named = this.#all.filter((monitor) => monitor.name === name);
    const from = named.length ? named : this.#all;
    return from.find((monitor) => monitor.n_windows > 0) ?? from[0] ?? null;
  }

  /** Take in newer facts of one monitor. */
  update(monitor) {
    const place = this.#all.findIndex((other) => other.name === monitor.name && other.key === monitor.key);
    if (place >= 0) this.#all[place] = monitor;
    if (this.#current?.name === monitor.name && this.#current?.key === monitor.key) this.show(monitor);
  }

  /** Say which monitor is shown. */
  show({ name, key }) {
    const monitor = this.find({ name, key }) ?? { name, key, state: "gone", n_windows: 0, last: null, open_episode: null };
    this.#current = monitor;
    if (document.activeElement !== byId("monitor")) byId("monitor").value = label(monitor);
    byId("monitor-badge").dataset.tone = tone(monitor);
    const parts = [monitor.source ? `from ${monitor.source}, ${monitor.state}` : monitor.state];
    if (monitor.last) parts.push(`${whole(monitor.last.last_record + 1)} records`, counted(monitor.n_windows, "window"));
    if (monitor.trouble) parts.push(monitor.trouble);
    byId("monitor-facts").textContent = parts.join(" · ");
    byId("monitor-facts").title = byId("monitor-facts").textContent;
    document.title = `${monitor.open_episode ? "● Changed · " : ""}${label(monitor)} · driftbn`;
  }
}

function label({ name, key }) {
  return key ? `${name} / ${key}` : name;
}

function tone(monitor) {
  if (monitor.open_episode) return "drift";
  if (TROUBLED.has(monitor.state) || monitor.trouble) return "trouble";
  return monitor.n_windows === 0 ? "learning" : "calm";
}

function stateWords(monitor) {
  if (TROUBLED.has(monitor.state)) return monitor.state;
  if (monitor.n_windows === 0) return "first window";
  return stateWord(stateOf(monitor.last.level, monitor.open_episode)).toLowerCase();
}
