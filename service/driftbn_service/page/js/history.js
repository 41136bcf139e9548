// What the API knows of one monitor, fetched when it is needed and kept for a while.

import { ask, askAll, ofMonitor, open } from "./api.js";
import { GraphModel } from "./graph_model.js";
import { Series } from "./series.js";

const MAX_KEPT = 200;

/** Windows, graphs and episodes of one monitor. */
export class MonitorHistory {
  #kept = new Map();

  /** @param {{name: string, key: string}} place */
  constructor(place) {
    this.place = place;
    this.series = null;
    this.episodes = [];
  }

  /** Fetch the time line and the episodes. */
  async load() {
    this.series = new Series(await ask(ofMonitor(this.place, "/series")));
    await this.reloadEpisodes();
  }

  /** Take in windows up to a newer one; return how many there are. */
  async catchUp(newest) {
    const known = this.series.last;
    if (known !== null && newest.window <= known) return 0;
    const gap = known === null ? newest.window + 1 : newest.window - known;
    if (gap === 1) return this.series.extend(Object.fromEntries(Object.entries(newest).map(([name, value]) => [name, [value]])));
    return this.series.extend(await ask(ofMonitor(this.place, "/series", { limit: Math.min(gap, 2000) })));
  }

  async reloadEpisodes() {
    const found = await askAll(`streams/${encodeURIComponent(this.place.name)}/episodes`, { key: this.place.key });
    const completed = (window) => (this.series.nearest(window) === window ? this.series.at(window).stored : null);
    this.episodes = found.map((episode) => ({ ...episode, completed: completed(episode.started_window) }));
  }

  /** Return the graph of a window and all that is known of it. */
  async window(index, signal) {
    return this.#keep(`window ${index}`, async () => {
      const [graph, detail] = await Promise.all([
        ask(ofMonitor(this.place, "/graph", { window: index }), { signal }),
        ask(ofMonitor(this.place, `/windows/${index}`), { signal }),
      ]);
      return { model: new GraphModel(graph), detail };
    });
  }

  /** Return an episode with its explanation; one that is open may still change. */
  async episode(number) {
    const found = this.episodes.find((item) => item.episode === number);
    const fetch = () => ask(ofMonitor(this.place, `/episodes/${number}`));
    return found?.state === "ended" ? this.#keep(`episode ${number}`, fetch) : fetch();
  }

  /** Return a window as a page to keep; null if it is not in the history any more. */
  async page(index) {
    const response = await open(ofMonitor(this.place, `/windows/${index}/page`));
    return response.ok ? response.blob() : null;
  }

  /** Return what became of an edge, the newest first. */
  async edge([source, target]) {
    const path = `/edges/${encodeURIComponent(source)}/${encodeURIComponent(target)}`;
    return (await ask(ofMonitor(this.place, path))).items;
  }

  async #keep(name, fetch) {
    const known = this.#kept.get(name);
    if (known !== undefined) return known;
    const found = await fetch();
    this.#kept.set(name, found);
    if (this.#kept.size > MAX_KEPT) this.#kept.delete(this.#kept.keys().next().value);
    return found;
  }
}
