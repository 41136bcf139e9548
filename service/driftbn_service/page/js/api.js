// Questions to the API of the same service.

const BASE = "api/v1";
const TOKEN_KEY = "driftbn.token";
const MAX_PAGES = 50;

/** The API said no, or nothing. `status` is 0 if the service could not be reached. */
class ApiError extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

let askForToken = async () => null;

/** Set who asks the user for the token; it returns a promise of one. */
export function onToken(ask) {
  askForToken = ask;
}

export function keepToken(token) {
  sessionStorage.setItem(TOKEN_KEY, token);
}

/** Open an answer; asks for the token as often as it is missing or wrong. */
export async function open(path, { headers = {}, ...more } = {}) {
  for (;;) {
    const token = sessionStorage.getItem(TOKEN_KEY);
    const sent = token === null ? headers : { ...headers, authorization: `Bearer ${token}` };
    let response;
    try {
      // Without credentials the browser does not ask for a password by itself.
      response = await fetch(`${BASE}/${path}`, { ...more, headers: sent, credentials: "omit", cache: "no-store" });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new ApiError(0, "The service does not answer.");
    }
    if (response.status !== 401) return response;
    await askForToken(token !== null);
  }
}

/** Return an answer in JSON. */
export async function ask(path, options) {
  const response = await open(path, options);
  const body = await response.json().catch(() => null);
  if (response.ok && body !== null) return body;
  throw new ApiError(response.status, body?.detail ?? `The service answered ${response.status}.`);
}

/** Return what the service waits for, in words; "" when it waits for nothing, or does not answer. */
export async function unreadiness() {
  const response = await fetch("-/ready", { credentials: "omit", cache: "no-store" }).catch(() => null);
  if (response?.status !== 503) return "";
  const [, ...reasons] = (await response.text()).trim().split("\n");
  return reasons.join("; ");
}

/** Return all items of a list that comes in pages. */
export async function askAll(path, query = {}) {
  const items = [];
  let cursor = null;
  for (let page = 0; page < MAX_PAGES; page += 1) {
    const found = await ask(withQuery(path, { ...query, cursor }));
    items.push(...found.items);
    cursor = found.next;
    if (cursor === null) break;
  }
  return items;
}

/** Return a path with a query; empty values are left out. */
function withQuery(path, query) {
  const pairs = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return pairs.length ? `${path}?${new URLSearchParams(pairs)}` : path;
}

/** Return the path of something that belongs to a monitor. */
export function ofMonitor({ name, key }, rest = "", query = {}) {
  return withQuery(`streams/${encodeURIComponent(name)}${rest}`, { key, ...query });
}
