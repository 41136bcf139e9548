// Telling the user what has just happened: notices, toasts, and words for screen readers.

import { byId, make } from "./dom.js";

const TOAST_SECONDS = 12;
let retry = null;

/** Show a trouble calmly above everything; `again` is called when the user wants to try again. */
export function showTrouble(words, again) {
  const notice = byId("notice");
  notice.querySelector("p").textContent = words;
  notice.hidden = false;
  retry = again;
}

export function hideTrouble() {
  byId("notice").hidden = true;
}

/** Say something to screen readers. */
export function announce(words) {
  const log = byId("announcer");
  log.append(make("p", {}, words));
  while (log.children.length > 5) log.firstChild.remove();
}

/** Show news for a while; a press on it calls `onPick`. */
export function toast(words, onPick) {
  announce(words);
  const box = make("div.toast", {}, make("p", {}, words), make("button.button", { type: "button", onclick: () => { box.remove(); onPick(); } }, "Show"), make("button.button.quiet", { type: "button", "aria-label": "Close", onclick: () => box.remove() }, "✕"));
  byId("toasts").append(box);
  while (byId("toasts").children.length > 3) byId("toasts").firstChild.remove();
  setTimeout(() => box.remove(), TOAST_SECONDS * 1000);
}

/** Say whether news arrive. */
export function showConnection(state) {
  const words = { connecting: "Connecting", live: "Live", reconnecting: "Reconnecting" };
  const shown = byId("connection");
  if (shown.dataset.state === state) return;
  shown.dataset.state = state;
  shown.querySelector(".connection-words").textContent = words[state];
}

document.addEventListener("DOMContentLoaded", () => {
  byId("notice").querySelector("button").addEventListener("click", () => retry?.());
});
