// How nodes and edges look; colours come from the style sheet of the page.

/** How much larger changed parts are at most while their names stay inside the boxes. */
export const NEAR_GROWTH = 1.25;

/** Return the colours of the present theme. */
export function palette() {
  const style = getComputedStyle(document.documentElement);
  const names = [
    "paper", "panel", "ink", "soft", "rule", "kept", "added", "removed", "reversed", "changed", "target",
    "node", "node-edge", "near", "raw", "band", "band-strong", "accent", "grid",
  ];
  return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

/** Return the style of the graph. */
export function graphStyle(colours) {
  return [...nodeStyle(colours), ...edgeStyle(colours), ...focusStyle(colours)];
}

function nodeStyle(colours) {
  return [
    {
      selector: "node",
      style: {
        shape: "round-rectangle",
        "corner-radius": 6,
        width: "data(width)",
        height: 26,
        "background-color": colours.node,
        "border-width": 1,
        "border-color": colours["node-edge"],
        label: "data(label)",
        color: colours.ink,
        "font-family": "system-ui, sans-serif",
        "font-size": 12.5,
        "text-valign": "center",
        "text-halign": "center",
        "min-zoomed-font-size": 5,
        "overlay-opacity": 0,
      },
    },
    // Shown small, boxes are blocks and lines are not thinner than the screen can show.
    { selector: "node.far", style: { "background-color": colours["node-edge"], "border-width": 0 } },
    { selector: "node.near", style: { "background-color": colours.near, "border-color": colours.target } },
    { selector: "node.near.far", style: { "background-color": colours.target } },
    {
      selector: "node.target",
      style: { "background-color": colours.near, "border-width": 4, "border-style": "double", "border-color": colours.target, "font-weight": 700 },
    },
    {
      selector: "node.hot",
      style: {
        "font-size": (node) => 12.5 * node.scratch("_grown"),
        "border-width": (node) => 2 * node.scratch("_grown"),
        "border-color": colours.ink,
        "font-weight": 700,
        "min-zoomed-font-size": 0,
        "text-background-color": colours.node,
        "text-background-opacity": 0.85,
        "text-background-shape": "round-rectangle",
        "text-background-padding": 2,
        "text-halign": (node) => (node.scratch("_grown") > NEAR_GROWTH ? node.scratch("_side") ?? "center" : "center"),
        "z-compound-depth": "top",
        "z-index": 30,
      },
    },
    {
      selector: "node.changed",
      style: { "border-width": (node) => 3 * node.scratch("_grown"), "border-color": colours.changed, color: colours.changed },
    },
  ];
}

function edgeStyle(colours) {
  const grown = (base) => (edge) => base * (edge.scratch("_grown") ?? 1);
  const kinds = [
    ["added", { "line-style": "solid" }],
    ["removed", { "line-style": "dashed", "line-dash-pattern": [7, 4] }],
    ["reversed", { "line-style": "dashed", "line-dash-pattern": [12, 3, 2, 3] }],
  ];
  return [
    {
      selector: "edge",
      style: {
        width: 1.4,
        "line-color": colours.kept,
        "target-arrow-color": colours.kept,
        "target-arrow-shape": "none",
        "arrow-scale": 0.85,
        "curve-style": "bezier",
        "overlay-opacity": 0,
        "overlay-padding": 6,
      },
    },
    {
      selector: "edge.routed",
      style: {
        "curve-style": "unbundled-bezier",
        "edge-distances": "node-position",
        "control-point-distances": "data(distances)",
        "control-point-weights": "data(weights)",
      },
    },
    { selector: "edge.far", style: { width: 2.4, "arrow-scale": 1.1 } },
    { selector: "edge.directed", style: { "target-arrow-shape": "triangle" } },
    ...kinds.map(([kind, style]) => ({
      selector: `edge.${kind}`,
      style: { ...style, "line-color": colours[kind], "target-arrow-color": colours[kind], opacity: 0.75 },
    })),
    {
      selector: "edge.confirmed",
      style: {
        width: (edge) => edge.data("thickness") * edge.scratch("_grown"),
        opacity: 1,
        "arrow-scale": 0.75,
        label: "data(kind)",
        color: colours.node,
        "font-family": "system-ui, sans-serif",
        "font-size": grown(11),
        "font-weight": 700,
        "text-background-opacity": 1,
        "text-background-shape": "round-rectangle",
        "text-background-padding": 3,
        "text-margin-y": grown(-13),
        // Above the boxes, so that its word can be read.
        "z-compound-depth": "top",
        "z-index": 20,
      },
    },
    ...kinds.map(([kind]) => ({ selector: `edge.confirmed.${kind}`, style: { "text-background-color": colours[kind] } })),
  ];
}

function focusStyle(colours) {
  return [
    { selector: "node.dim", style: { opacity: 0.42 } },
    { selector: "edge.dim", style: { opacity: 0.26 } },
    { selector: "node.chosen", style: { "border-width": 3, "border-color": colours.accent, "z-index": 40, "min-zoomed-font-size": 0 } },
    { selector: "edge.chosen", style: { opacity: 1, "underlay-color": colours.accent, "underlay-opacity": 0.25, "underlay-padding": 6, "z-index": 40 } },
    { selector: "edge.chosen.kept", style: { width: 3, "line-color": colours.accent, "target-arrow-color": colours.accent } },
    { selector: "node.under", style: { "border-color": colours.accent, "border-width": 2 } },
    { selector: "edge.under", style: { "underlay-color": colours.accent, "underlay-opacity": 0.2, "underlay-padding": 4 } },
  ];
}
