// Places for the fields: layers by dagre for each connected part, the parts side by side.

import { pairId } from "./graph_model.js";

export const NODE_HEIGHT = 26;
const GAP = 34; // between parts, in the units of the graph
/** A small graph is not shown larger than this. */
export const MAX_FIT = 1.35;
const STRETCH = { x: 2.2, y: 1.8 }; // how far layers may be pulled apart to fill the room
// Always the same, whatever the screen, so that a link shows two people the same places.
const ROOM = { width: 1000, height: 420 };
const PREFERENCE = 1.25; // names are wider than high, so layers side by side are easier to read

/**
 * Return places of nodes and the points that edges go through.
 *
 * @param {Map<string, number>} widths of the nodes by name
 * @param {Array<[string, string]>} edges
 * @param {{width: number, height: number}} room whose shape to fill
 */
export function layOut(widths, edges, room = ROOM) {
  const parts = connectedParts([...widths.keys()], edges);
  const across = drawn(parts, widths, room, "LR");
  const down = drawn(parts, widths, room, "TB");
  return down.scale > across.scale * PREFERENCE ? down : across;
}

function drawn(parts, widths, room, direction) {
  const layered = parts.filter((part) => part.names.length > 1).map((part) => layers(part, widths, direction));
  const alone = parts.filter((part) => part.names.length === 1).map((part) => part.names[0]);
  layered.sort((a, b) => b.width * b.height - a.width * a.height);
  if (alone.length) layered.push(grid(alone, widths, room, layered));
  return packed(layered, room);
}

function connectedParts(names, edges) {
  const parent = new Map(names.map((name) => [name, name]));
  const root = (name) => {
    let found = name;
    while (parent.get(found) !== found) found = parent.get(found);
    parent.set(name, found);
    return found;
  };
  for (const [source, target] of edges) parent.set(root(source), root(target));
  const parts = new Map();
  for (const name of names) {
    if (!parts.has(root(name))) parts.set(root(name), { names: [], edges: [] });
    parts.get(root(name)).names.push(name);
  }
  for (const edge of edges) parts.get(root(edge[0])).edges.push(edge);
  return [...parts.values()];
}

function layers(part, widths, direction) {
  const graph = new dagre.graphlib.Graph();
  const ranker = part.names.length > 120 ? "tight-tree" : "network-simplex";
  const across = direction === "LR";
  const many = part.names.length > 80;
  graph.setGraph({ rankdir: direction, ...(across ? { nodesep: many ? 7 : 12, ranksep: many ? 42 : 50 } : { nodesep: 22, ranksep: 42 }), edgesep: many ? 4 : 10, ranker });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const name of part.names) graph.setNode(name, { width: widths.get(name), height: NODE_HEIGHT });
  for (const [source, target] of part.edges) graph.setEdge(source, target);
  dagre.layout(graph);
  const positions = new Map(part.names.map((name) => [name, graph.node(name)]));
  const bends = new Map(part.edges.map(([source, target]) => [
    pairId(source, target),
    { source, points: graph.edge(source, target).points.slice(1, -1) },
  ]));
  const { width, height } = graph.graph();
  return { width, height, positions, bends };
}

/** Fields without relations, in rows. */
function grid(names, widths, room, others) {
  const widest = Math.max(...names.map((name) => widths.get(name))) + 14;
  const total = Math.max(...others.map((other) => other.width), widest, Math.sqrt(names.length * widest * NODE_HEIGHT * (room.width / room.height)));
  const columns = Math.max(1, Math.floor(total / widest));
  const positions = new Map(names.map((name, n) => [name, {
    x: (n % columns) * widest + widest / 2,
    y: Math.floor(n / columns) * (NODE_HEIGHT + 14) + NODE_HEIGHT / 2,
  }]));
  const rows = Math.ceil(names.length / columns);
  return { width: Math.min(columns, names.length) * widest, height: rows * (NODE_HEIGHT + 14), positions, bends: new Map() };
}

/** Put the parts into rows, as wide as makes the whole largest on the screen. */
function packed(parts, room) {
  if (!parts.length) return { scale: 0, positions: new Map(), bends: new Map() };
  const widest = Math.max(...parts.map((part) => part.width));
  const all = parts.reduce((sum, part) => sum + part.width + GAP, 0);
  let best = null;
  for (let n = 0; n <= 12; n += 1) {
    for (const found of [inRows(parts, widest + ((all - widest) * n) / 12), beside(parts, (all * n) / 12)]) {
      found.scale = Math.min(room.width / found.width, room.height / found.height);
      if (best === null || found.scale > best.scale * 1.001) best = found;
    }
  }
  const zoom = Math.min(best.scale, MAX_FIT);
  const pull = {
    x: Math.min(STRETCH.x, room.width / zoom / best.width),
    y: Math.min(STRETCH.y, room.height / zoom / best.height),
  };
  return moved(parts, best, pull);
}

/** The first part, which is the largest, with the others in rows to its right. */
function beside([first, ...others], limit) {
  const rest = inRows(others, limit);
  const corners = rest.corners.map(({ x, y }) => ({ x: x + first.width + GAP, y }));
  return {
    corners: [{ x: 0, y: 0 }, ...corners],
    width: first.width + (others.length ? GAP + rest.width : 0),
    height: Math.max(first.height, rest.height),
  };
}

function inRows(parts, limit) {
  const corners = [];
  let [x, y, rowHeight, width] = [0, 0, 0, 0];
  for (const part of parts) {
    if (x > 0 && x + part.width > limit) [x, y, rowHeight] = [0, y + rowHeight + GAP, 0];
    corners.push({ x, y });
    x += part.width + GAP;
    width = Math.max(width, x - GAP);
    rowHeight = Math.max(rowHeight, part.height);
  }
  return { corners, width, height: y + rowHeight };
}

function moved(parts, { corners, scale }, pull) {
  const positions = new Map();
  const bends = new Map();
  parts.forEach((part, n) => {
    const shift = ({ x, y }) => ({ x: (x + corners[n].x) * pull.x, y: (y + corners[n].y) * pull.y });
    for (const [name, place] of part.positions) positions.set(name, shift(place));
    for (const [id, bend] of part.bends) bends.set(id, { source: bend.source, points: bend.points.map(shift) });
  });
  return { positions, bends, scale };
}
