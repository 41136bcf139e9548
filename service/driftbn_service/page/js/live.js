// Server-sent events by fetch, which can send a token; EventSource cannot.

import { open } from "./api.js";
import { pause } from "./dom.js";

const SILENCE = 50_000; // milliseconds; the service says something every 15 seconds
const PAUSES = [500, 1000, 2000, 5000, 10_000];

/**
 * Follow the events of the service for ever.
 *
 * @param {(event: {type: string, data: object}) => void} onEvent
 * @param {(state: "connecting"|"live"|"reconnecting") => void} onState
 */
export async function follow(onEvent, onState) {
  let last = null;
  let failures = 0;
  onState("connecting");
  for (;;) {
    try {
      for await (const message of messages(last, () => { failures = 0; onState("live"); })) {
        last = message.id ?? last;
        onEvent(message);
      }
    } catch (error) {
      if (!(error instanceof Error)) throw error;
    }
    onState("reconnecting");
    await pause(PAUSES[Math.min(failures, PAUSES.length - 1)]);
    failures += 1;
  }
}

async function* messages(last, onOpen) {
  const stop = new AbortController();
  let watch = setTimeout(() => stop.abort(), SILENCE);
  try {
    const headers = last === null ? {} : { "last-event-id": last };
    const response = await open("events", { signal: stop.signal, headers });
    if (!response.ok) throw new Error(`events: ${response.status}`);
    onOpen();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      clearTimeout(watch);
      watch = setTimeout(() => stop.abort(), SILENCE);
      const blocks = (rest + value).split("\n\n");
      rest = blocks.pop();
      yield* blocks.map(parsed).filter((message) => message !== null);
    }
  } finally {
    clearTimeout(watch);
    stop.abort();
  }
}

/** Return the message of a block; null if it holds no data. */
export function parsed(block) {
  const message = { type: "message", id: null };
  const data = [];
  for (const line of block.split("\n")) {
    const [field, value] = split(line);
    if (field === "event") message.type = value;
    else if (field === "id") message.id = value;
    else if (field === "data") data.push(value);
  }
  return data.length ? { ...message, data: JSON.parse(data.join("\n")) } : null;
}

function split(line) {
  const colon = line.indexOf(":");
  if (colon < 0) return [line, ""];
  return [line.slice(0, colon), line.slice(colon + 1).replace(/^ /, "")];
}
