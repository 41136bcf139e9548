// One window on the screen: graph or table, time line, explanation and episodes, all of the same.

import { Combobox } from "./combobox.js";
import { byId, fill, make, save, showHint } from "./dom.js";
import { showTable } from "./edge_table.js";
import { showEpisodes } from "./episodes.js";
import { GraphView } from "./graph.js";
import { edgeWords } from "./inspect_edge.js";
import { nodeWords } from "./inspect_node.js";
import { headlineOf, windowWords } from "./inspect_window.js";
import { graphLabel, showLegend } from "./legend.js";
import { pairId } from "./graph_model.js";
import { Timeline, covers } from "./timeline.js";
import { announce, toast } from "./news.js";
import { counted, decimal, edgeSentence, pValue, relation, stateOf, stateWord, whole } from "./words.js";

/** Shows windows and what the user has chosen of them. */
export class WindowView {
  #graph;
  #timeline;
  #history = null;
  #found = null;
  #told = null;
  #episode = null;
  #selection = null; // {node: name} or {edge: [source, target], history: [...] or null}
  #noise = false;
  #table = false;
  #onWindow;
  #onEpisode;

  /** @param {{onWindow: Function, onEpisode: Function}} listeners */
  constructor({ onWindow, onEpisode }) {
    this.#onWindow = onWindow;
    this.#onEpisode = onEpisode;
    const pick = (subject) => this.select(subject);
    this.#graph = new GraphView(byId("graph"), { onPick: pick, onHover: (subject, place) => this.#hint(subject, place) });
    this.#timeline = new Timeline(onWindow);
    this.#wireButtons();
    new Combobox(byId("field"), byId("field-list"), {
      choices: () => (this.#found?.model.names ?? []).map((label) => ({ label })),
      onPick: ({ label }) => {
        this.select({ node: label });
        this.#graph.reveal(label);
      },
      text: () => "",
      nothing: "No field has this name",
    });
    // For those who look at the page from a console, and for tests.
    window.driftbn = { cy: this.#graph.cy };
  }

  /** Show another monitor, from a window on. */
  async begin(history, wanted) {
    this.#history = history;
    this.#found = null;
    this.#selection = null;
    this.#graph.reset();
    this.#timeline.show(history.series, history.episodes);
    showEpisodes(history.episodes, null, this.#onEpisode);
    if (!history.series.length) return;
    // Places follow the window that the link names, with all changes up to it: they are the same for
    // every window afterwards, and for whoever opens the link later.
    const index = history.series.nearest(wanted.window ?? history.series.last);
    const { model } = await history.window(index);
    this.#graph.expect(model.edges.values());
    const earlier = history.episodes.filter((episode) => episode.started_window <= index);
    this.#graph.expect(earlier.flatMap((episode) => episode.edges).filter((edge) => edge.window <= index && model.nodes.has(edge.source) && model.nodes.has(edge.target)));
  }

  /** Mark the window to come; its graph follows when it is there. */
  mark(index, episode) {
    if (episode !== this.#episode) showEpisodes(this.#history.episodes, episode, this.#onEpisode);
    this.#episode = episode;
    this.#timeline.mark(index, episode);
  }

  /** Draw a window. */
  show(found, told) {
    this.#found = found;
    this.#told = told;
    byId("empty").hidden = true;
    this.#showViews();
    const { model } = found;
    const episode = this.#episodeOf(found);
    const state = stateOf(model.window.level, episode, found.detail.report.decision.reason);
    byId("level").textContent = stateWord(state);
    byId("level").dataset.state = state;
    const words = headlineOf(found.detail.report, found.detail.explanation, episode);
    fill(byId("headline-words"), make("span.soft", {}, `Window ${whole(model.window.window)} `), words);
    this.#draw();
    this.#inspect();
  }

  /** Say why there is nothing to see. */
  showNothing(monitor) {
    this.#found = null;
    byId("level").textContent = "Waiting";
    byId("level").dataset.state = "learning";
    byId("headline-words").textContent = monitor === null ? "There is no stream yet" : "The first window fills";
    byId("graph-view").hidden = true;
    byId("table-view").hidden = true;
    const empty = byId("empty");
    empty.hidden = false;
    const [title, words] = emptyWords(monitor);
    empty.querySelector("h2").textContent = title;
    empty.querySelector("p").textContent = words;
    fill(byId("inspector"), make("p.soft", {}, "Here it will say in words what changed, since when, how sure that is, and what to do."));
  }

  /** Draw what is new after windows have come. */
  grown() {
    this.#timeline.setEpisodes(this.#history.episodes);
    this.#timeline.refresh();
    showEpisodes(this.#history.episodes, this.#episode, this.#onEpisode);
  }

  /** Whether a window belongs to an episode. */
  inEpisode(number, index) {
    const episode = this.#history.episodes.find((item) => item.episode === number);
    return episode !== undefined && covers(episode, index);
  }

  /** Choose a field or an edge; null chooses the window itself. */
  async select(subject) {
    showHint(null);
    this.#selection = subject === null ? null : { ...subject, history: null };
    if (this.#found === null) return;
    this.#draw();
    this.#inspect();
    byId("inspector").scrollTop = 0;
    if (subject?.edge) await this.#loadHistory(this.#selection);
    if (subject) announce(byId("inspector").querySelector("h3, p")?.textContent ?? "");
  }

  clearSelection() {
    if (this.#selection !== null) this.select(null);
  }

  repaint() {
    this.#graph.repaint();
    this.#timeline.repaint();
  }

  #wireButtons() {
    byId("zoom-in").addEventListener("click", () => this.#graph.zoomBy(1.4));
    byId("zoom-out").addEventListener("click", () => this.#graph.zoomBy(1 / 1.4));
    byId("fit").addEventListener("click", () => this.#graph.fit());
    byId("tidy").addEventListener("click", () => this.#graph.tidy());
    byId("picture").addEventListener("click", () => save(this.#graph.picture(), this.#name("png")));
    byId("report").addEventListener("click", () => this.#saveReport());
    byId("back").addEventListener("click", () => this.select(null));
    byId("as-graph").addEventListener("click", () => this.#setTable(false));
    byId("as-table").addEventListener("click", () => this.#setTable(true));
    byId("noise").addEventListener("change", () => {
      this.#noise = byId("noise").checked;
      if (this.#found !== null) this.#draw();
    });
  }

  async #saveReport() {
    if (this.#found === null) return;
    const name = this.#name("html");
    const page = await this.#history.page(this.#found.model.window.window);
    if (page === null) toast("This window is not in the history any more.", () => this.#onWindow(null));
    else save(page, name);
  }

  /** A name for a file of what is shown. */
  #name(ending) {
    const { name, key } = this.#history.place;
    return `${[name, key, "window", this.#found.model.window.window].filter((part) => part !== "").join("-")}.${ending}`;
  }

  #setTable(table) {
    this.#table = table;
    byId("as-graph").setAttribute("aria-pressed", String(!table));
    byId("as-table").setAttribute("aria-pressed", String(table));
    if (this.#found !== null) this.#showViews();
  }

  #showViews() {
    byId("graph-view").hidden = this.#table;
    byId("table-view").hidden = !this.#table;
  }

  #draw() {
    const { model } = this.#found;
    byId("graph-view").hidden = false; // it must have a size to be drawn
    this.#graph.show(model, this.#noise);
    this.#graph.focus(this.#focus(model));
    this.#showViews();
    showLegend(model, this.#noise);
    byId("graph").setAttribute("aria-label", graphLabel(model));
    byId("graph").dataset.window = model.window.window;
    const chosen = this.#selection?.edge;
    showTable(model.shown(true), chosen ? pairId(...chosen) : null, (subject) => this.select(subject));
  }

  /** What to point out: what the user has chosen, or the changes of the chosen episode. */
  #focus(model) {
    if (this.#selection?.node) return { nodes: [this.#selection.node], around: true, mark: true };
    if (this.#selection?.edge) return { edges: [this.#selection.edge], mark: true };
    if (this.#episode === null) return null;
    return {
      edges: model.confirmed.map((edge) => [edge.source, edge.target]),
      nodes: model.changedNodes.map((node) => node.name),
    };
  }

  #inspect() {
    const { model, detail } = this.#found;
    const context = {
      model,
      detail,
      report: detail.report,
      episode: this.#episodeOf(this.#found),
      told: this.#told,
      chosen: this.#episode !== null,
      onPick: (subject) => this.#pickFromWords(subject),
      onWindow: this.#onWindow,
    };
    const selection = this.#selection;
    byId("back").hidden = selection === null;
    if (selection === null) {
      byId("inspector-title").textContent = this.#episode === null ? "This window" : `Episode ${this.#episode}`;
      fill(byId("inspector"), windowWords(context));
    } else if (selection.node) {
      byId("inspector-title").textContent = "Field";
      fill(byId("inspector"), nodeWords(selection.node, context));
    } else {
      byId("inspector-title").textContent = "Relation";
      fill(byId("inspector"), edgeWords(model.edge(...selection.edge), { ...context, ends: selection.edge, history: selection.history }));
    }
  }

  #pickFromWords(subject) {
    this.select(subject);
    byId("inspector").focus();
    if (subject.node) this.#graph.reveal(subject.node);
  }

  async #loadHistory(selection) {
    try {
      selection.history = await this.#history.edge(selection.edge);
    } catch {
      selection.history = []; // the rest of the explanation stands without it
    }
    if (selection === this.#selection && this.#found !== null) this.#inspect();
  }

  #episodeOf({ detail }) {
    const number = this.#episode ?? detail.report.decision.episode;
    return this.#history.episodes.find((item) => item.episode === number) ?? null;
  }

  #hint(subject, place) {
    if (subject === null || this.#found === null) {
      showHint(null);
      return;
    }
    const { model } = this.#found;
    showHint(place, ...(subject.node ? nodeHint(model, subject.node) : edgeHint(model.edge(...subject.edge))));
  }
}

function nodeHint(model, name) {
  const node = model.nodes.get(name);
  const { parents, children, linked } = model.around(name);
  return [
    make("strong", {}, name),
    node.changed ? `comes otherwise than before (p ${pValue(node.p_value)})` : null,
    node.target ? "the target" : node.near_target ? "next to the target" : null,
    `depends on ${counted(parents.length, "field")}; ${counted(children.length, "field")} ${children.length === 1 ? "depends" : "depend"} on it${linked.length ? `; ${linked.length} more without direction` : ""}`,
  ];
}

function edgeHint(edge) {
  if (edge === null) return [];
  return [
    make("strong", {}, relation(edge)),
    edgeSentence(edge),
    edge.confirmed ? `${decimal(edge.before?.nats)} → ${decimal(edge.after?.nats)} nats, p ${pValue(edge.p_value)}` : null,
    edge.confirmed || edge.kind === "kept" ? null : "Not confirmed by a test: such differences come by chance.",
  ];
}

function emptyWords(monitor) {
  if (monitor === null) return ["No stream", "The settings name no stream, and the history is empty. As soon as a stream is set up, it appears here by itself."];
  const trouble = monitor.trouble ? ` At present: ${monitor.trouble}.` : "";
  const fed = monitor.source === "http" ? `Send records to api/v1/streams/${monitor.name}/records.` : monitor.source ? `Records come from ${monitor.source}.` : "";
  return ["Waiting for the first window", `The graph appears here as soon as the first window is full; from the second one on, windows are compared. ${fed} Nothing needs to be reloaded.${trouble}`];
}
