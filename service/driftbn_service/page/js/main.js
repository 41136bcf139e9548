// Puts the parts together: what is shown follows from the address, the user and the live events.

import { readAddress, writeAddress } from "./address.js";
import { ask, ofMonitor, onToken, unreadiness } from "./api.js";
import { byId, oncePerFrame, pause } from "./dom.js";
import { MonitorHistory } from "./history.js";
import { follow } from "./live.js";
import { Monitors } from "./monitors.js";
import { announce, hideTrouble, showConnection, showTrouble, toast } from "./news.js";
import { askToken } from "./token.js";
import { WindowView } from "./window_view.js";

const BETWEEN_UPDATES = 400; // milliseconds
const BETWEEN_LISTS = 10_000;
const BETWEEN_LOOKS = 1000;
const DRIFT_STARTED = "io.driftbn.drift.started.v1";

class Page {
  #history = null;
  #monitors = new Monitors((place) => this.open(place));
  #view;
  #wanted = { window: null, episode: null }; // window null: the newest, whichever that is
  #loading = null;
  #dirty = false;
  #updating = false;
  #listed = 0;
  #unseen = 0;

  constructor() {
    this.#view = new WindowView({
      onWindow: (index) => this.go({ window: index }),
      onEpisode: (number) => this.#toggleEpisode(number),
    });
    byId("earlier").addEventListener("click", () => this.step(-1));
    byId("later").addEventListener("click", () => this.step(1));
    byId("newest").addEventListener("click", () => this.go({ window: null, episode: null }));
    byId("help").addEventListener("click", () => byId("help-dialog").showModal());
    addEventListener("hashchange", () => this.#followAddress());
    addEventListener("keydown", (event) => this.#key(event));
    document.addEventListener("driftbn:theme", () => this.#view.repaint());
  }

  /** Load everything for the first time. */
  async start() {
    await this.#try(async () => {
      await this.#monitors.load();
      this.#listed = performance.now();
      await this.#followAddress();
    });
    follow((event) => this.#heard(event), (state) => this.#connected(state));
    await this.#awaitStart();
  }

  /** While there is nothing to show, say what the service waits for, as for the compiler. */
  async #awaitStart() {
    while (this.#history === null) {
      const reasons = await unreadiness();
      if (reasons === "") await this.#try(() => this.#monitors.load().then(() => this.#followAddress()));
      else byId("headline-words").textContent = `Starting: ${reasons}`;
      await pause(BETWEEN_LOOKS);
    }
  }

  /** Show another monitor. */
  async open(place, wanted = { window: null, episode: null }) {
    await this.#try(async () => {
      const history = new MonitorHistory(place);
      this.#history = history;
      this.#wanted = wanted;
      this.#unseen = 0;
      this.#monitors.show(place);
      await history.load();
      if (history !== this.#history) return;
      await this.#view.begin(history, wanted);
      await this.go(wanted);
    });
  }

  /** Show a window, and an episode if one is chosen; window null stays with the newest. */
  async go({ window: index, episode = this.#wanted.episode }) {
    const series = this.#history?.series;
    if (!series) return;
    if (index !== null && index >= series.last && episode === null) index = null;
    this.#wanted = { window: index, episode };
    if (index === null) this.#unseen = 0;
    const shown = series.nearest(index ?? series.last);
    if (episode !== null && !this.#view.inEpisode(episode, shown)) this.#wanted.episode = null;
    writeAddress({ ...this.#history.place, ...this.#wanted });
    this.#view.mark(shown, this.#wanted.episode);
    this.#showNewest();
    this.#fetch();
  }

  step(by) {
    const series = this.#history?.series;
    if (series?.length) this.go({ window: series.step(this.#wanted.window ?? series.last, by) });
  }

  /** Fetch and draw the wanted window; while the user drags, only the newest wish is carried out. */
  #fetch = oncePerFrame(async () => {
    this.#loading?.abort();
    const loading = new AbortController();
    this.#loading = loading;
    const history = this.#history;
    const index = this.#wanted.window ?? history.series.last;
    if (index === null) {
      this.#view.showNothing(this.#monitors.find(history.place));
      return;
    }
    await this.#try(async () => {
      const found = await history.window(history.series.nearest(index), loading.signal);
      const number = this.#wanted.episode ?? found.detail.report.decision.episode;
      const told = number === null ? null : await history.episode(number);
      if (loading === this.#loading && history === this.#history) this.#view.show(found, told);
    });
  });

  async #followAddress() {
    const address = readAddress();
    const named = address.name === null ? null : this.#monitors.find(address);
    const place = named ?? this.#monitors.usual(address.name);
    if (place === null) {
      this.#view.showNothing(null);
      return;
    }
    const wanted = named === null ? { window: null, episode: null } : { window: address.window, episode: address.episode };
    const same = this.#history?.place.name === place.name && this.#history?.place.key === place.key;
    if (!same) await this.open({ name: place.name, key: place.key }, wanted);
    else if (wanted.window !== this.#wanted.window || wanted.episode !== this.#wanted.episode) await this.go(wanted);
    if (address.name !== null && named === null) announce(`There is no stream ${address.name}; ${place.name} is shown.`);
  }

  /** Go to the next episode after the window that is shown, or to the one before it. */
  #stepEpisode(by) {
    if (!this.#history?.series?.length) return;
    const { episodes, series } = this.#history;
    const here = episodes.findIndex((item) => item.episode === this.#wanted.episode);
    const index = this.#wanted.window ?? series.last;
    const later = (item) => item.started_window > index;
    const earlier = (item) => item.started_window < index;
    const found = here >= 0 ? episodes[here - by] : by > 0 ? episodes.findLast(later) : episodes.find(earlier);
    if (found === undefined) announce(by > 0 ? "There is no later episode." : "There is no earlier episode.");
    else this.#openEpisode(found.episode);
  }

  async #toggleEpisode(number) {
    if (this.#wanted.episode === number) await this.go({ window: this.#wanted.window, episode: null });
    else await this.#openEpisode(number);
  }

  async #openEpisode(number) {
    await this.#try(async () => {
      const told = await this.#history.episode(number);
      const index = told.explained_window ?? told.episode.started_window;
      await this.go({ window: index, episode: number });
      this.#view.clearSelection();
    });
  }

  // --- Live ---

  #connected(state) {
    const back = state === "live" && byId("connection").dataset.state === "reconnecting";
    showConnection(state);
    if (back) {
      hideTrouble();
      this.#listed = 0;
      this.#update();
    }
  }

  #heard({ type, data }) {
    if (type === DRIFT_STARTED) this.#tellDrift(data.data);
    this.#update();
  }

  #tellDrift({ stream, key, window: index, episode, headline }) {
    const here = this.#history?.place.name === stream && this.#history?.place.key === key;
    this.#listed = 0; // the list of monitors shows it too
    toast(headline, () => {
      if (here) this.go({ window: index, episode });
      else this.open({ name: stream, key }, { window: index, episode });
    });
  }

  /** Bring everything up to date; news that come meanwhile are taken in afterwards. */
  async #update() {
    this.#dirty = true;
    if (this.#updating) return;
    this.#updating = true;
    while (this.#dirty) {
      this.#dirty = false;
      await this.#try(() => this.#takeIn());
      await pause(BETWEEN_UPDATES);
    }
    this.#updating = false;
  }

  async #takeIn() {
    if (performance.now() - this.#listed > BETWEEN_LISTS || this.#listed === 0) {
      this.#listed = performance.now();
      await this.#monitors.load();
    }
    const history = this.#history;
    if (history === null) {
      await this.#followAddress();
      return;
    }
    const monitor = await ask(ofMonitor(history.place));
    this.#monitors.update(monitor);
    if (monitor.last === null || history.series === null) return;
    const number = await history.catchUp(monitor.last);
    if (!number || history !== this.#history) return;
    await history.reloadEpisodes();
    this.#view.grown();
    if (this.#wanted.window === null) await this.go({ window: null });
    else {
      this.#unseen += number;
      this.#showNewest();
    }
  }

  #showNewest() {
    byId("newest").setAttribute("aria-pressed", String(this.#wanted.window === null));
    byId("newest-words").textContent = this.#unseen ? `Newest (${this.#unseen} new)` : "Newest";
  }

  // --- Trouble and keys ---

  async #try(work) {
    try {
      await work();
      hideTrouble();
    } catch (error) {
      if (error.name === "AbortError") return;
      showTrouble(`${error.message} What is shown may be old.`, () => this.#retry());
    }
  }

  async #retry() {
    await this.#try(async () => {
      await this.#monitors.load();
      if (this.#history?.series) await this.go(this.#wanted);
      else await this.#followAddress();
    });
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target.matches?.("input[type=text], input[type=password], input[type=range], textarea, select") || document.querySelector("dialog[open]");
    if (event.key === "/" && !typing) {
      event.preventDefault();
      byId("field").focus();
    } else if (event.key === "Escape") {
      this.#view.clearSelection();
    } else if (!typing && !event.target.closest?.("table, .scroll")) {
      if (event.key === "ArrowLeft") this.step(-1);
      if (event.key === "ArrowRight") this.step(1);
      if (event.key === "n") this.#stepEpisode(1);
      if (event.key === "p") this.#stepEpisode(-1);
      if (event.key === "?") byId("help-dialog").showModal();
    }
  }
}

onToken(askToken);
const page = new Page();
page.start();
