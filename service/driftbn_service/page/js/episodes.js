// The list of episodes, the newest first.

import { byId, fill, make } from "./dom.js";
import { counted, moment, whole, withoutLead } from "./words.js";

/** Show the episodes; `onPick` gets the number of the one that the user chooses. */
export function showEpisodes(episodes, chosen, onPick) {
  byId("episodes-count").textContent = episodes.length ? String(episodes.length) : "";
  if (!episodes.length) {
    fill(byId("episodes"), make("li.soft.episode-none", {}, "None so far. An episode begins when a test finds that the relations between fields changed, and ends when nothing further changes."));
    return;
  }
  const titles = titlesOf(episodes);
  fill(byId("episodes"), episodes.map((episode) => make("li", {}, row(episode, titles.get(episode.episode), episode.episode === chosen, onPick))));
}

/** Return a title for each episode, no two the same. */
function titlesOf(episodes) {
  const met = new Map();
  return new Map([...episodes].reverse().map((episode) => {
    const words = withoutLead(episode.headline);
    const times = (met.get(words) ?? 0) + 1;
    met.set(words, times);
    return [episode.episode, times === 1 ? words : `${words.replace(/\.$/, "")} (again, ${times} times so far).`];
  }));
}

function row(episode, title, chosen, onPick) {
  const state = episode.state === "open" ? make("span.pill", { "data-tone": "drift" }, "open") : make("span.pill", { "data-tone": "calm" }, "ended");
  const when = moment(episode.started_time) ?? moment(episode.completed) ?? (episode.started_record === null ? null : `record ${whole(episode.started_record)}`);
  return make(
    "button.episode",
    { type: "button", "aria-pressed": String(chosen), "data-state": episode.state, onclick: () => onPick(episode.episode) },
    make("span.episode-head", {}, make("span.episode-number", {}, `#${episode.episode}`), state, episode.recurring ? make("span.pill", { "data-tone": "calm" }, "seen before") : null, make("span.soft", {}, `since window ${whole(episode.started_window)}`)),
    make("span.episode-words", {}, title),
    make("span.soft.small", {}, [when, counted(episode.n_windows, "window")].filter(Boolean).join(" · ")),
  );
}
