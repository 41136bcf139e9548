// What people did about an episode, and accepting the present as normal.

import { readAddress } from "./address.js";
import { ask, ofMonitor } from "./api.js";
import { make } from "./dom.js";
import { block } from "./parts.js";
import { moment } from "./words.js";

const DONE = { accept: "accepted as normal", silence: "silenced", comment: "commented" };

/** Return what was done about an episode, and while it is open a way to accept; null for neither. */
export function actionsBlock(episode, told) {
  const done = told?.actions ?? [];
  const isOpen = episode?.state === "open";
  if (!isOpen && !done.length) return null;
  return block(
    "What was done",
    ...done.map((action) => make("p", {}, actionWords(action))),
    isOpen ? acceptance() : null,
  );
}

function actionWords({ kind, author, comment, stored, until }) {
  const who = author || "somebody";
  const end = until === null ? "" : ` until ${moment(until)}`;
  return `${moment(stored)}: ${DONE[kind] ?? kind} by ${who}${end}${comment ? `: ${comment}` : ""}`;
}

function acceptance() {
  const comment = make("input", { type: "text", maxlength: "2000", "aria-label": "Why", placeholder: "why" });
  const answer = make("p.soft", { role: "status" });
  const accept = async (event) => {
    event.preventDefault();
    try {
      const body = JSON.stringify({ comment: comment.value });
      await ask(ofMonitor(readAddress(), "/accept"), { method: "POST", body, headers: { "content-type": "application/json" } });
      answer.textContent = "Accepted: the next window begins a new reference.";
    } catch (error) {
      answer.textContent = error.message;
    }
  };
  return make(
    "details.acceptance", {},
    make("summary", {}, "Accept the present as normal"),
    make("form", { onsubmit: accept }, comment, make("button", { type: "submit" }, "Accept: end this episode")),
    answer,
  );
}
