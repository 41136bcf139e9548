// The list of episodes, the newest first.

import { byId, fill, make } from "./dom.js";
import { counted, moment, whole, withoutLead } from "./words.js";

const MOST_EDGES = 3;

/** Show the episodes; `onPick` gets the number of the one that the user chooses. */
export function showEpisodes(episodes, chosen, onPick) {
  byId("episodes-count").textContent = episodes.length ? String(episodes.length) : "";
  if (!episodes.length) {
    fill(byId("episodes"), make("li.soft.episode-none", {}, "None so far. An episode begins when a test finds that the relations between fields changed, and ends when nothing further changes."));
    return;
  }
  fill(byId("episodes"), episodes.map((episode) => make("li", {}, row(episode, episode.episode === chosen, onPick))));
}

function row(episode, chosen, onPick) {
  const state = episode.state === "open" ? make("span.pill", { "data-tone": "drift" }, "open") : make("span.pill", { "data-tone": "calm" }, "ended");
  const when = moment(episode.started_time) ?? (episode.started_record === null ? null : `record ${whole(episode.started_record)}`);
  return make(
    "button.episode",
    { type: "button", "aria-pressed": String(chosen), "data-state": episode.state, onclick: () => onPick(episode.episode) },
    make("span.episode-head", {}, make("span.episode-number", {}, `#${episode.episode}`), state, episode.recurring ? make("span.pill", { "data-tone": "calm" }, "seen before") : null, make("span.soft", {}, `since window ${whole(episode.started_window)}`)),
    make("span.episode-words", {}, withoutLead(episode.headline)),
    episode.edges.length ? make("span.small", {}, edgeWords(episode.edges)) : null,
    make("span.soft.small", {}, [when, counted(episode.n_windows, "window")].filter(Boolean).join(" · ")),
  );
}

function edgeWords(edges) {
  const words = edges.slice(0, MOST_EDGES).map(({ source, target, change }) => `${change} ${source} – ${target}`);
  if (edges.length > MOST_EDGES) words.push(`${edges.length - MOST_EDGES} more`);
  return words.join("; ");
}
