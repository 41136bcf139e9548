// Making elements. Texts from outside become text nodes, never markup.

/** Return the element of an id. */
export function byId(id) {
  return document.getElementById(id);
}

/**
 * Make an element.
 *
 * @param {string} tag with classes behind dots: "p.soft.small"
 * @param {object} options attributes; `onclick` and the like are listeners
 * @param {...(Node|string|null)} children texts become text nodes; null is left out
 */
export function make(tag, options = {}, ...children) {
  const [name, ...classes] = tag.split(".");
  const element = document.createElement(name);
  element.classList.add(...classes);
  for (const [key, value] of Object.entries(options)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value === true) element.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(key, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** Put these children into an element in place of what it holds. */
export function fill(element, ...children) {
  element.replaceChildren(...children.flat().filter((child) => child !== null && child !== undefined));
}

const KEPT = 60_000; // milliseconds

/** Let the user keep something as a file. */
export function save(blob, name) {
  const link = make("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), KEPT); // a browser may read it later
}

/** Wait for so many milliseconds. */
export function pause(milliseconds) {
  return new Promise((resolve) => {
    setTimeout(resolve, milliseconds);
  });
}

/** Return a function that runs at most once a frame, with the newest arguments. */
export function oncePerFrame(work) {
  let waiting = null;
  return (...values) => {
    if (waiting === null) requestAnimationFrame(() => {
      const newest = waiting;
      waiting = null;
      work(...newest);
    });
    waiting = values;
  };
}

/** Show a small box with words near a place of the screen; null hides it. */
export function showHint(place, ...lines) {
  const hint = byId("hint");
  hint.hidden = place === null;
  if (place === null) return;
  fill(hint, lines.filter(Boolean).map((line) => (line instanceof Node ? line : make("p", {}, line))));
  const { width, height } = hint.getBoundingClientRect();
  const left = place.x + 16 + width > innerWidth ? place.x - width - 12 : place.x + 16;
  const top = place.y + 16 + height > innerHeight ? place.y - height - 12 : place.y + 16;
  hint.style.left = `${Math.max(4, left)}px`;
  hint.style.top = `${Math.max(4, top)}px`;
}
