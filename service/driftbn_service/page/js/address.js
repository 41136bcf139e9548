// What is shown, as the part of the address behind "#": a link shows the same to somebody else.

/** Return what the address names. */
export function readAddress() {
  const values = new URLSearchParams(location.hash.slice(1));
  return {
    name: values.get("stream"),
    key: values.get("key") ?? "",
    window: wholeNumber(values.get("window")),
    episode: wholeNumber(values.get("episode")),
  };
}

/** Write what is shown into the address, without a new entry in the history of the browser. */
export function writeAddress({ name, key, window: index, episode }) {
  const values = new URLSearchParams();
  if (name) values.set("stream", name);
  if (key) values.set("key", key);
  if (index !== null) values.set("window", index);
  if (episode !== null) values.set("episode", episode);
  const wanted = `#${values}`;
  if (location.hash !== wanted) history.replaceState(null, "", wanted);
}

function wholeNumber(text) {
  return text !== null && /^\d{1,15}$/.test(text) ? Number(text) : null;
}
