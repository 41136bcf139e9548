// The graph on a canvas: places stay where they are while windows come and go.

import { oncePerFrame } from "./dom.js";
import { pairId } from "./graph_model.js";
import { NEAR_GROWTH, graphStyle, palette } from "./graph_style.js";
import { MAX_FIT, layOut } from "./layout.js";
import { shortened } from "./words.js";

const PADDING = 28;
const MAX_GROWTH = 4;
const FAR = 0.42; // zoom below which names are too small to read
const NARROW = 560;
const LETTER = 7.4; // width of a letter on average: what one screen measures is not what another does
const MARKS = { target: "◎ ", changed: "Δ " };
const ruler = document.createElement("canvas").getContext("2d");

/** Draws graphs into an element. */
export class GraphView {
  #container;
  #places = { positions: new Map(), bends: new Map() };
  #known = { names: new Set(), edges: new Map() };
  #model = null;
  #noise = false;
  #focus = null;

  /**
   * @param {HTMLElement} container
   * @param {{onPick: Function, onHover: Function}} listeners take {node} or {edge: [source, target]}, or null
   */
  constructor(container, listeners) {
    this.#container = container;
    this.cy = cytoscape({
      container,
      style: graphStyle(palette()),
      autoungrabify: true,
      boxSelectionEnabled: false,
      minZoom: 0.05,
      maxZoom: 4,
    });
    this.#listen(listeners);
    const grow = oncePerFrame(() => this.#grow());
    this.cy.on("zoom", grow);
    new ResizeObserver(oncePerFrame(() => this.#resized())).observe(container);
  }

  /** Forget the places; the next graph is of another monitor. */
  reset() {
    this.#places = { positions: new Map(), bends: new Map() };
    this.#known = { names: new Set(), edges: new Map() };
    this.#model = null;
    this.cy.elements().remove();
  }

  /** Take edges into account when places are given, besides those of the graph that is shown. */
  expect(edges) {
    for (const { source, target } of edges) this.#learn(source, target);
  }

  /** Draw a graph. */
  show(model, noise) {
    const unknown = model.names.some((name) => !this.#places.positions.has(name));
    this.#model = model;
    this.#noise = noise;
    for (const name of model.names) this.#known.names.add(name);
    if (unknown) {
      // What differs by chance in one window is no reason to give other places.
      this.expect(this.#known.edges.size ? model.confirmed : model.edges.values());
      this.#place();
    }
    this.#update();
    if (unknown) this.#firstLook();
  }

  /** Give new places that fit the graph that is shown. */
  tidy() {
    if (this.#model === null) return;
    this.#known = { names: new Set(this.#model.names), edges: new Map() };
    this.expect(this.#model.shown(this.#noise));
    this.#place();
    this.cy.elements().remove();
    this.#update();
    this.fit();
  }

  /** Point out some nodes and edges and dim the rest; null points out nothing. */
  focus(focus) {
    this.#focus = focus;
    this.#applyFocus();
  }

  fit() {
    this.cy.resize();
    this.cy.fit(undefined, PADDING);
    if (this.cy.zoom() > MAX_FIT) {
      this.cy.zoom(MAX_FIT);
      this.cy.center();
    }
    this.#grow();
  }

  /** Show all; on a narrow screen, where that is too small, what has changed. */
  #firstLook() {
    this.fit();
    const hot = this.cy.elements(".hot, .confirmed");
    if (this.cy.zoom() > FAR || this.cy.width() > NARROW || hot.empty()) return;
    this.cy.fit(hot.closedNeighborhood(), PADDING);
    this.cy.zoom({ level: Math.min(1, Math.max(0.7, this.cy.zoom())), position: centre(hot) });
    this.cy.center(hot);
    this.#grow();
  }

  /** Return what is drawn as a picture. */
  picture() {
    return this.cy.png({ output: "blob", full: true, scale: 2, bg: palette().panel });
  }

  zoomBy(factor) {
    const level = this.cy.zoom() * factor;
    this.cy.zoom({ level, renderedPosition: { x: this.cy.width() / 2, y: this.cy.height() / 2 } });
  }

  /** Bring a field into view, large enough to read. */
  reveal(name) {
    const node = this.cy.getElementById(name);
    if (node.empty()) return;
    const { x1, y1, x2, y2 } = this.cy.extent();
    const { x, y } = node.position();
    const inside = x > x1 && x < x2 && y > y1 && y < y2;
    if (inside && this.cy.zoom() > 0.6) return;
    this.cy.zoom(Math.max(this.cy.zoom(), 0.9));
    this.cy.center(node);
  }

  repaint() {
    this.cy.style(graphStyle(palette()));
  }

  #listen({ onPick, onHover }) {
    const subject = (element) => (element.isNode() ? { node: element.id() } : { edge: [element.data("source"), element.data("target")] });
    this.cy.on("tap", (event) => onPick(event.target === this.cy ? null : subject(event.target)));
    this.cy.on("mouseover", "node, edge", (event) => {
      event.target.addClass("under");
      this.#container.classList.add("pointing");
      onHover(subject(event.target), { x: event.originalEvent.clientX, y: event.originalEvent.clientY });
    });
    this.cy.on("mouseout", "node, edge", (event) => {
      event.target.removeClass("under");
      this.#container.classList.remove("pointing");
      onHover(null);
    });
    this.cy.on("viewport", () => onHover(null));
  }

  #resized() {
    const before = [this.cy.width(), this.cy.height()];
    this.cy.resize();
    if (this.#model === null) return;
    if (before[0] === 0 || Math.abs(before[0] - this.cy.width()) + Math.abs(before[1] - this.cy.height()) > 60) this.#firstLook();
  }

  #learn(source, target) {
    const id = pairId(source, target);
    if (!this.#known.edges.has(id)) this.#known.edges.set(id, [source, target]);
    this.#known.names.add(source).add(target);
  }

  #place() {
    const names = [...this.#known.names].sort();
    const widths = new Map(names.map((name) => [name, Math.max(40, shortened(name).length * LETTER + 16)]));
    const edges = [...this.#known.edges].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, ends]) => ends);
    this.#places = layOut(widths, edges);
  }

  /** Bring the canvas up to date: elements that stay are kept as they are. */
  #update() {
    const edges = this.#model.shown(this.#noise);
    const wanted = new Map(edges.map((edge) => [JSON.stringify([edge.source, edge.target]), edge]));
    const hot = this.#model.touched;
    this.cy.batch(() => {
      for (const element of this.cy.elements().toArray()) {
        const keep = element.isNode() ? this.#model.nodes.has(element.id()) : wanted.has(element.id());
        if (!keep) element.remove();
      }
      for (const node of this.#model.nodes.values()) this.#putNode(node, hot);
      for (const [id, edge] of wanted) this.#putEdge(id, edge);
      for (const edge of this.#model.confirmed) this.#takeSides(edge);
    });
    this.#applyFocus();
    this.#grow();
  }

  #putNode(node, hot) {
    const marks = (node.changed ? MARKS.changed : "") + (node.target ? MARKS.target : "");
    const data = { label: marks + shortened(node.name), width: widthOf(marks + node.name, hot.has(node.name)) };
    const classes = [];
    if (node.near_target) classes.push("near");
    if (node.target) classes.push("target");
    if (hot.has(node.name)) classes.push("hot");
    if (node.changed) classes.push("changed");
    let element = this.cy.getElementById(node.name);
    if (element.empty()) {
      const position = this.#places.positions.get(node.name) ?? { x: 0, y: 0 };
      element = this.cy.add({ group: "nodes", data: { id: node.name, ...data }, position: { ...position }, scratch: { _grown: 1 } });
    } else {
      element.data(data);
    }
    element.classes(classes);
  }

  #putEdge(id, edge) {
    let element = this.cy.getElementById(id);
    const route = this.#route(edge);
    const data = { kind: edge.kind, thickness: thickness(edge.nats), confirmed: edge.confirmed };
    if (element.empty()) {
      element = this.cy.add({
        group: "edges",
        data: { id, source: edge.source, target: edge.target, ...data, ...route },
        scratch: { _grown: 1 },
      });
    } else {
      element.data(data);
    }
    const classes = [edge.kind];
    if (edge.directed) classes.push("directed");
    if (edge.confirmed) classes.push("confirmed");
    if (route !== null) classes.push("routed");
    element.classes(classes);
  }

  /** Let the names of two changed fields go apart when they are larger than their boxes. */
  #takeSides({ source, target }) {
    const [first, second] = [this.cy.getElementById(source), this.cy.getElementById(target)];
    const ordered = first.position("x") <= second.position("x");
    first.scratch("_side", ordered ? "left" : "right");
    second.scratch("_side", ordered ? "right" : "left");
  }

  /** Return the way of an edge around the nodes, as distances from the straight line. */
  #route({ id, source, target }) {
    const bend = this.#places.bends.get(id);
    const from = this.#places.positions.get(source);
    const to = this.#places.positions.get(target);
    // Between neighbouring layers there is nothing to go around.
    if (!bend || bend.points.length < 2 || !from || !to) return null;
    const [dx, dy] = [to.x - from.x, to.y - from.y];
    const length = Math.hypot(dx, dy);
    if (length < 1) return null;
    const points = bend.source === source ? bend.points : [...bend.points].reverse();
    const along = points.map((point) => ((point.x - from.x) * dx + (point.y - from.y) * dy) / length ** 2);
    const aside = points.map((point) => ((point.y - from.y) * dx - (point.x - from.x) * dy) / length);
    return { weights: along, distances: aside };
  }

  #applyFocus() {
    this.cy.batch(() => {
      this.cy.elements().removeClass("dim chosen");
      const focus = this.#focus;
      if (focus === null) return;
      const chosen = this.cy.collection();
      for (const name of focus.nodes ?? []) chosen.merge(this.cy.getElementById(name));
      for (const [source, target] of focus.edges ?? []) chosen.merge(this.#edgeBetween(source, target));
      if (chosen.empty()) return;
      const near = focus.around ? chosen.closedNeighborhood() : chosen.union(chosen.connectedNodes());
      this.cy.elements().not(near.union(near.connectedNodes())).addClass("dim");
      if (focus.mark) chosen.addClass("chosen");
    });
  }

  #edgeBetween(source, target) {
    const there = this.cy.getElementById(JSON.stringify([source, target]));
    return there.nonempty() ? there : this.cy.getElementById(JSON.stringify([target, source]));
  }

  /** Keep what matters readable when the graph is shown small. */
  #grow() {
    const zoom = this.cy.zoom();
    const grown = Math.min(zoom < FAR ? MAX_GROWTH : NEAR_GROWTH, Math.max(1, 0.95 / zoom));
    const hot = this.cy.elements(".hot, .changed, .confirmed");
    hot.forEach((element) => {
      element.scratch("_grown", grown);
    });
    this.cy.batch(() => this.cy.elements().toggleClass("far", zoom < FAR));
    hot.updateStyle();
  }
}

function widthOf(name, bold = false) {
  ruler.font = `${bold ? "700 " : ""}12.5px system-ui, sans-serif`;
  return Math.max(40, Math.round(ruler.measureText(shortened(name)).width) + 16);
}

function centre(elements) {
  const { x1, y1, x2, y2 } = elements.boundingBox();
  return { x: (x1 + x2) / 2, y: (y1 + y2) / 2 };
}

function thickness(nats) {
  return nats === null ? 2.5 : Math.min(6, 2 + 6 * Math.sqrt(nats));
}
