// The graph of a window as the page draws it, and what can be read from it.

/** Return the id of an edge; the same whichever way it points. */
export function pairId(source, target) {
  return JSON.stringify(source < target ? [source, target] : [target, source]);
}

/** The graph of a window. Edges have `kind`: kept, added, removed or reversed. */
export class GraphModel {
  /** @param {object} document the answer of /graph */
  constructor(document) {
    this.window = document.window;
    this.confirmedWindow = document.confirmed_window;
    this.target = document.target;
    this.nodes = new Map(document.nodes.map((node) => [node.name, node]));
    this.edges = new Map(document.edges.map((edge) => [pairId(edge.source, edge.target), read(edge)]));
  }

  get names() {
    return [...this.nodes.keys()];
  }

  /** The edges to draw; without noise, what no test confirms counts as kept or is left out. */
  shown(noise) {
    const found = [];
    for (const edge of this.edges.values()) {
      if (edge.confirmed || noise || edge.kind === "kept") found.push(edge);
      else if (edge.kind !== "removed") found.push({ ...edge, kind: "kept" });
    }
    return found;
  }

  edge(source, target) {
    return this.edges.get(pairId(source, target)) ?? null;
  }

  /** Edges with a change that a test confirms. */
  get confirmed() {
    return [...this.edges.values()].filter((edge) => edge.confirmed);
  }

  /** Edges that differ from the window before, without a test that says more. */
  get unconfirmed() {
    return [...this.edges.values()].filter((edge) => !edge.confirmed && edge.kind !== "kept");
  }

  get changedNodes() {
    return [...this.nodes.values()].filter((node) => node.changed);
  }

  /** Fields that a confirmed change is about. */
  get touched() {
    const names = this.confirmed.flatMap((edge) => [edge.source, edge.target]);
    return new Set([...names, ...this.changedNodes.map((node) => node.name)]);
  }

  /** What a field stands in relation with now. */
  around(name) {
    const present = [...this.edges.values()].filter((edge) => edge.present);
    return {
      parents: present.filter((edge) => edge.directed && edge.target === name).map((edge) => edge.source),
      children: present.filter((edge) => edge.directed && edge.source === name).map((edge) => edge.target),
      linked: present
        .filter((edge) => !edge.directed && (edge.source === name || edge.target === name))
        .map((edge) => (edge.source === name ? edge.target : edge.source)),
      downstream: this.#downstream(name, present),
    };
  }

  /** The fields that tell all there is to know of a field: around it, and beside it above a child. */
  blanket(name) {
    const present = [...this.edges.values()].filter((edge) => edge.present);
    const children = new Set(present.filter((edge) => edge.source === name).map((edge) => edge.target));
    const found = new Set(children);
    for (const edge of present) {
      if (edge.target === name || children.has(edge.target)) found.add(edge.source);
    }
    found.delete(name);
    return found;
  }

  #downstream(name, present) {
    const children = new Map();
    for (const edge of present) {
      if (edge.directed) children.set(edge.source, [...(children.get(edge.source) ?? []), edge.target]);
    }
    const found = new Set();
    const waiting = [name];
    while (waiting.length) {
      for (const child of children.get(waiting.pop()) ?? []) {
        if (!found.has(child)) {
          found.add(child);
          waiting.push(child);
        }
      }
    }
    found.delete(name);
    return found;
  }
}

function read(edge) {
  const strongest = edge.confirmed === "removed" ? edge.before : edge.after;
  return {
    ...edge,
    id: pairId(edge.source, edge.target),
    kind: edge.confirmed ?? edge.status,
    confirmed: edge.confirmed !== null,
    present: edge.status !== "removed" && edge.status !== "absent",
    nats: strongest?.nats ?? null,
  };
}
