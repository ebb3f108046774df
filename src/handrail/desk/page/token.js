/**
 * The token with which this page speaks to its node: from the address that `handrail serve` printed, from this tab's
 * own memory, from a sister tab, or from the person. It is in no address for longer than it takes to read it.
 */

const KEY = "handrail.token";
const WAIT = 200;

let current = "";
/** @typedef {"" | "address" | "tab" | "sister" | "person"} Source */
/** @type {Source} */
let source = "";
let refusedLast = "";
let asking = false;
/** @type {(() => void)[]} */
let waiting = [];
/** @type {(why: string) => void} */
let askPerson = () => {};

const sisters = new BroadcastChannel(KEY);
sisters.addEventListener("message", (event) => {
  const said = event.data;
  if (said?.ask === true && current) sisters.postMessage({ token: current });
  // Only who has none takes one: a tab's own may be good for less, and whoever makes a person follow a link can put any
  // token into an address.
  else if (typeof said?.token === "string" && !current && said.token !== refusedLast) take(said.token, "sister");
  else if (said?.forget === true) drop();
});

// Somebody opened a new address with a token in a tab that has the page already: they stay where they were.
window.addEventListener("hashchange", ({ oldURL }) => {
  const given = fromAddress(new URL(oldURL).hash);
  if (given) give(given, "address");
});

/** @returns {string} */
export function token() {
  return current;
}

/** Where it came from; "" if there is none. */
export function cameFrom() {
  return source;
}

/** No tab of this page knows it any longer; each begins anew. */
export function forget() {
  sisters.postMessage({ forget: true });
  drop();
}

function drop() {
  keep((current = ""));
  location.reload();
}

/**
 * Find one before the first call. It may be that there is none: a node may ask for none.
 * @param {(why: string) => void} ask Shows a field to paste one into, until one has `arrived`; `why` is what the node
 *   said of the last one, if there was one.
 */
export async function begin(ask) {
  askPerson = ask;
  const given = fromAddress();
  if (given) return give(given, "address");
  const kept = stored();
  if (kept) return take(kept, "tab");
  sisters.postMessage({ ask: true });
  await Promise.race([arrived(), new Promise((done) => setTimeout(done, WAIT))]);
}

/**
 * A new token: for this tab, and for its sisters.
 * @param {string} value
 * @param {"address" | "person"} [from]
 */
export function give(value, from = "person") {
  refusedLast = "";
  take(value, from);
  sisters.postMessage({ token: value });
}

/**
 * The node did not take it. Returns once there is another one.
 * @param {string} used
 * @param {string} why
 * @param {boolean} [good] For something else: then a sister's, which is good for more, is not taken in its place.
 */
export async function refused(used, why, good = false) {
  if (current && current !== used) return; // there is a new one already
  if (current) keep((current = ""));
  refusedLast = used;
  const next = arrived();
  if (!asking) askPerson(used ? why : "");
  asking = true;
  if (!good) sisters.postMessage({ ask: true });
  await next;
}

/**
 * When there is a token that was not there before.
 * @returns {Promise<void>}
 */
export function arrived() {
  return new Promise((done) => waiting.push(done));
}

/**
 * @param {string} value
 * @param {Source} from
 */
function take(value, from) {
  current = value;
  source = from;
  asking = false;
  keep(value);
  const told = waiting;
  waiting = [];
  for (const tell of told) tell();
}

/**
 * @param {string} [place] Where the address goes to without it.
 * @returns {string}
 */
function fromAddress(place = "") {
  const found = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!found) return "";
  history.replaceState(null, "", `${location.pathname}${location.search}${place}`);
  return found;
}

/** @returns {string} */
function stored() {
  try {
    return sessionStorage.getItem(KEY) ?? "";
  } catch {
    return ""; // a browser that keeps nothing for pages
  }
}

/** @param {string} value */
function keep(value) {
  try {
    if (value) sessionStorage.setItem(KEY, value);
    else sessionStorage.removeItem(KEY);
  } catch {
    // Then the tab knows it for as long as it is open.
  }
}
