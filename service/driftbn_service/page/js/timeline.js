// The time line: how many edges differ, how strong the evidence is, and where episodes are.

import { byId, oncePerFrame, showHint } from "./dom.js";
import { palette } from "./graph_style.js";
import { counted, decimal, moment, pValue, stateOf, stateWord, tickTime, whole } from "./words.js";

const MAX_EVIDENCE = 15; // smaller p-values than 1e-15 are drawn like it, and their tick says so
const AXIS = 54;
const STRIP = 5;
const MOST_LABELS = 24; // episodes that have their number written into the chart
const FONT = "11px system-ui, sans-serif";

/** Three charts over the windows, and a slider below them. */
export class Timeline {
  #series = null;
  #episodes = [];
  #current = null;
  #episode = null;
  #span = "all";
  #colours = palette();
  #charts = [];
  #onPick;
  #slider = byId("slider");

  /** @param {(window: number) => void} onPick called while the user goes through the windows */
  constructor(onPick) {
    this.#onPick = onPick;
    this.#slider.addEventListener("input", () => {
      if (this.#series?.length) onPick(this.#series.nearest(Number(this.#slider.value)));
    });
    for (const button of byId("spans").querySelectorAll("button")) {
      button.addEventListener("click", () => this.#setSpan(button.dataset.span));
    }
    new ResizeObserver(oncePerFrame(() => this.#resize())).observe(byId("charts"));
  }

  /** Show the windows of a monitor. */
  show(series, episodes) {
    this.#series = series;
    this.#episodes = episodes;
    if (!this.#charts.length) this.#make();
    this.refresh();
  }

  /** Draw anew after the series has grown. */
  refresh() {
    if (this.#series === null) return;
    const series = this.#series;
    this.#charts[0].setData([series.window, series.hamming, series.confirmed_hamming], false);
    this.#charts[1].setData([series.window, series.effect.map((nats, n) => (series.confirmed_hamming[n] || series.level[n] !== "stable" ? nats : null))], false);
    this.#charts[2].setData([series.window, series.p_value.map(evidence), series.alpha.map(evidence)], false);
    this.#scale();
  }

  setEpisodes(episodes) {
    this.#episodes = episodes;
    this.#redraw();
  }

  /** Mark a window, and an episode if one is chosen. */
  mark(index, episode) {
    this.#current = index;
    this.#episode = episode;
    this.#slider.value = index ?? 0;
    if (index !== null && this.#series?.length) this.#slider.setAttribute("aria-valuetext", this.#words(index).join(", "));
    const [first, last] = this.#range();
    if (index !== null && (index < first || index > last)) this.#setSpan("all");
    this.#redraw();
  }

  repaint() {
    this.#colours = palette();
    this.#redraw();
  }

  #make() {
    const shared = {
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false }, points: { show: false }, sync: { key: "driftbn" } },
      hooks: { drawClear: [(chart) => this.#drawBands(chart)], draw: [(chart) => this.#drawMarks(chart)] },
    };
    const colour = (name) => () => this.#colours[name];
    const axis = { stroke: colour("soft"), font: FONT, grid: { stroke: colour("grid"), width: 1 }, ticks: { show: false } };
    const windows = { ...axis, size: 36, gap: 2, space: 64, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000], values: (_, splits) => splits.map((n) => this.#tick(n)) };
    const x = { time: false };
    this.#charts = [
      this.#chart("changes-chart", {
        ...shared,
        scales: { x, y: { range: (_, low, high) => [0, Math.max(4, Math.ceil((high ?? 0) * 1.15))] } },
        axes: [{ ...windows, show: false }, { ...axis, size: AXIS, space: 24, incrs: [1, 2, 5, 10, 20, 50, 100, 200], label: "edges", labelSize: 14, labelGap: 0, labelFont: FONT }],
        series: [
          {},
          { stroke: colour("raw"), width: 1, points: { show: false } },
          {
            stroke: colour("removed"), fill: colour("removed"), width: 0, paths: uPlot.paths.bars({ size: [0.5, 6, 2] }),
            points: { show: true, size: 7, width: 0, fill: colour("removed"), filter: (chart) => places(chart.data[2], (value) => value > 0) },
          },
        ],
      }),
      this.#chart("size-chart", {
        ...shared,
        scales: { x, y: { range: (_, low, high) => [0, Math.max(0.03, (high ?? 0) * 1.2)] } },
        axes: [{ ...windows, show: false }, { ...axis, size: AXIS, space: 12, label: "nats", labelSize: 14, labelGap: 0, labelFont: FONT }],
        series: [{}, { stroke: colour("changed"), fill: colour("changed"), width: 0, paths: uPlot.paths.bars({ size: [0.5, 6, 2] }), points: { show: false } }],
      }),
      this.#chart("evidence-chart", {
        ...shared,
        scales: { x, y: { range: [0, MAX_EVIDENCE + 1] } },
        axes: [windows, { ...axis, size: AXIS, splits: () => [0, 5, 10, MAX_EVIDENCE], values: (_, splits) => splits.map(tick), label: "p-value", labelSize: 14, labelGap: 0, labelFont: FONT }],
        series: [
          {},
          { stroke: colour("accent"), width: 1.5, points: { show: false } },
          { stroke: colour("removed"), width: 1, dash: [5, 4], points: { show: false } },
        ],
      }),
    ];
    for (const chart of this.#charts) this.#listen(chart);
  }

  #chart(id, options) {
    const { clientWidth: width, clientHeight: height } = byId(id);
    return new uPlot({ ...options, width: Math.max(100, width), height: Math.max(40, height), padding: [8, 12, options.axes[0].show === false ? 7 : 0, 0] }, null, byId(id));
  }

  #listen(chart) {
    let pressed = false;
    const pick = (event) => {
      const { left } = chart.over.getBoundingClientRect();
      const index = this.#series.nearest(chart.posToVal(event.clientX - left, "x"));
      if (index !== null && index !== this.#current) this.#onPick(index);
    };
    chart.over.addEventListener("pointerdown", (event) => {
      pressed = true;
      chart.over.setPointerCapture(event.pointerId);
      pick(event);
    });
    chart.over.addEventListener("pointermove", (event) => {
      if (pressed) pick(event);
      const { left } = chart.over.getBoundingClientRect();
      if (!this.#series.length) return;
      const lines = this.#words(this.#series.nearest(chart.posToVal(event.clientX - left, "x")));
      showHint({ x: event.clientX, y: event.clientY }, ...lines);
    });
    for (const name of ["pointerup", "pointercancel"]) {
      chart.over.addEventListener(name, () => {
        pressed = false;
      });
    }
    chart.over.addEventListener("pointerleave", () => showHint(null));
  }

  /** Say what is known of a window. */
  #words(index) {
    const at = this.#series.at(index);
    const episode = this.#episodes.find((item) => covers(item, at.window));
    return [
      `Window ${whole(at.window)}: ${stateWord(stateOf(at.level, episode))}`,
      moment(at.end) ?? `complete ${moment(at.stored)}`,
      at.confirmed_hamming ? `${counted(at.confirmed_hamming, "confirmed change")}` : "no confirmed change of an edge",
      at.hamming ? `${counted(at.hamming, "edge")} ${at.hamming === 1 ? "differs" : "differ"} from the window before, as by chance` : "the same edges as in the window before",
      at.effect ? `size ${decimal(at.effect)} nats` : null,
      at.p_value === null ? null : `p-value ${pValue(at.p_value)}, alarm from ${pValue(at.alpha)}`,
      episode ? `episode ${episode.episode}` : null,
    ].filter((line) => line !== null);
  }

  /** The number of a window and, below it, its time. */
  #tick(index) {
    const series = this.#series;
    if (!Number.isInteger(index) || !series.length || index < series.first || index > series.last) return "";
    const [first, last] = this.#range();
    return `${whole(index)}\n${tickTime(series.time(index), series.time(last) - series.time(first))}`;
  }

  #setSpan(span) {
    this.#span = span;
    for (const button of byId("spans").querySelectorAll("button")) {
      button.setAttribute("aria-pressed", String(button.dataset.span === span));
    }
    if (this.#series !== null) this.#scale();
  }

  #range() {
    if (!this.#series?.length) return [0, 1];
    const last = this.#series.last;
    const first = this.#span === "all" ? this.#series.first : Math.max(this.#series.first, last - Number(this.#span) + 1);
    return [first, Math.max(last, first + 1)];
  }

  #scale() {
    const [first, last] = this.#range();
    const margin = Math.max(0.6, (last - first) * 0.006);
    for (const chart of this.#charts) chart.setScale("x", { min: first - margin, max: last + margin });
    Object.assign(this.#slider, { min: first, max: Math.max(first, this.#series.last ?? 0) });
    this.#slider.value = this.#current ?? this.#series.last ?? 0;
  }

  /** Put the thumb of the slider below the mark in the charts. */
  #alignSlider(chart) {
    const [first, last] = this.#range();
    const half = 8; // of the thumb's width
    const left = chart.over.offsetLeft + chart.valToPos(first, "x") - half;
    const right = chart.over.offsetLeft + chart.valToPos(last, "x") + half;
    this.#slider.style.marginLeft = `${left}px`;
    this.#slider.style.width = `${right - left}px`;
  }

  #resize() {
    for (const chart of this.#charts) {
      const { clientWidth: width, clientHeight: height } = chart.root.parentElement;
      if (width > 0 && (width !== chart.width || height !== chart.height)) chart.setSize({ width, height });
    }
    if (this.#charts.length) this.#scale();
  }

  #redraw() {
    for (const chart of this.#charts) chart.redraw(false);
  }

  #drawBands(chart) {
    const { ctx, bbox } = chart;
    const [first, last] = this.#range();
    const at = (index) => Math.min(bbox.left + bbox.width, Math.max(bbox.left, chart.valToPos(index, "x", true)));
    const shown = this.#episodes.filter((episode) => (episode.ended_window ?? last) >= first && episode.started_window <= last);
    const labelled = chart === this.#charts[0] && shown.length <= MOST_LABELS;
    ctx.save();
    ctx.font = `600 ${11 * devicePixelRatio}px system-ui, sans-serif`;
    ctx.textBaseline = "top";
    for (const episode of shown) {
      const left = at(episode.started_window - 0.5);
      const width = Math.max(2, at((episode.ended_window ?? this.#series.last) + 0.5) - left - devicePixelRatio);
      ctx.fillStyle = this.#colours[episode.episode === this.#episode ? "band-strong" : "band"];
      ctx.fillRect(left, bbox.top, width, bbox.height);
      ctx.fillStyle = this.#colours.reversed;
      if (!labelled) continue;
      const outside = left + 30 * devicePixelRatio > bbox.left + bbox.width;
      ctx.textAlign = outside ? "right" : "left";
      ctx.fillText(`#${episode.episode}`, left + (outside ? -4 : 5) * devicePixelRatio, bbox.top + (STRIP + 3) * devicePixelRatio);
    }
    ctx.restore();
  }

  #drawMarks(chart) {
    const { ctx, bbox } = chart;
    const ratio = devicePixelRatio;
    if (chart === this.#charts[0]) {
      this.#drawLevels(chart);
      this.#alignSlider(chart);
    }
    this.#drawStarts(chart);
    if (this.#current === null) return;
    const x = Math.round(chart.valToPos(this.#current, "x", true));
    if (x < bbox.left || x > bbox.left + bbox.width) return;
    ctx.save();
    ctx.fillStyle = this.#colours.ink;
    ctx.fillRect(x - ratio / 2, bbox.top, Math.max(1, 1.5 * ratio), bbox.height);
    ctx.restore();
  }

  /** A line where each episode begins, above the grid. */
  #drawStarts({ ctx, bbox, valToPos }) {
    ctx.save();
    ctx.fillStyle = this.#colours.reversed;
    for (const { started_window: start } of this.#episodes) {
      const x = valToPos(start - 0.5, "x", true);
      if (x >= bbox.left && x <= bbox.left + bbox.width) ctx.fillRect(x, bbox.top, devicePixelRatio, bbox.height);
    }
    ctx.restore();
  }

  /** A strip along the top: windows that are a drift, and windows of which nothing is known. */
  #drawLevels(chart) {
    const { ctx, bbox } = chart;
    const colours = { drift: this.#colours.removed, settling: this.#colours.reversed, negligible: this.#colours.reversed, learning: this.#colours.raw, undecided: this.#colours.raw };
    const height = STRIP * devicePixelRatio;
    const wide = Math.max(2, chart.valToPos(1, "x", true) - chart.valToPos(0, "x", true));
    ctx.save();
    this.#series.level.forEach((level, n) => {
      const colour = colours[level];
      const x = chart.valToPos(this.#series.window[n], "x", true) - wide / 2;
      if (!colour || x + wide < bbox.left || x > bbox.left + bbox.width) return;
      ctx.fillStyle = colour;
      ctx.fillRect(Math.max(bbox.left, x), bbox.top, wide, height);
    });
    ctx.restore();
  }
}

/** Whether a window belongs to an episode. */
export function covers(episode, index) {
  return index >= episode.started_window && index <= (episode.ended_window ?? Infinity);
}

function evidence(p) {
  return p === null ? null : Math.min(MAX_EVIDENCE, -Math.log10(Math.max(p, 1e-300)));
}

function tick(value) {
  const words = value === 0 ? "1" : pValue(10 ** -value).replace("1 × ", "");
  return value === MAX_EVIDENCE ? `≤ ${words}` : words;
}

function places(values, holds) {
  return values.flatMap((value, n) => (holds(value) ? [n] : []));
}
