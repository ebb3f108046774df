/**
 * What the page says, in the person's language: words by their keys, and times, numbers and durations as that
 * language writes them. The words themselves stand in words/*.js; each part of the page adds its own.
 */

/** @typedef {"en" | "de"} Language */
/** @typedef {Record<string, string>} Words */

export const LANGUAGES = /** @type {const} */ (["en", "de"]);
const KEY = "handrail.language";
const DAY = 86_400_000;

/** @type {Record<Language, Words>} */
const known = { en: {}, de: {} };
/** @type {Set<() => void>} */
const listeners = new Set();
/** @type {Language} */
let current = first();

/** @returns {Language} */
function first() {
  const kept = stored();
  if (kept === "en" || kept === "de") return kept;
  return globalThis.navigator?.language?.toLowerCase().startsWith("de") ? "de" : "en";
}

/** @returns {string | null} */
function stored() {
  try {
    return globalThis.localStorage.getItem(KEY);
  } catch {
    return null; // a browser that keeps nothing for pages
  }
}

/** How numbers and times are written: as the browser does where it speaks this language, so that 7 pm stays 19:00. */
function locale() {
  const spoken = globalThis.navigator?.languages?.find((one) => one.toLowerCase().split("-")[0] === current);
  return spoken ?? { en: "en-GB", de: "de" }[current];
}

/** @param {Record<Language, Words>} words */
export function add(words) {
  Object.assign(known.en, words.en);
  Object.assign(known.de, words.de);
}

/** @returns {Language} */
export function language() {
  return current;
}

/** @param {Language} wanted */
export function setLanguage(wanted) {
  if (wanted === current) return;
  current = wanted;
  try {
    globalThis.localStorage.setItem(KEY, wanted);
  } catch {
    // Then it holds until the page is closed.
  }
  for (const listener of listeners) listener();
}

/**
 * Called whenever the language changes; returns how to end that.
 * @param {() => void} listener
 */
export function onLanguage(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/**
 * The words for a key, with `{name}` filled in. A key without words shows itself: a test finds those.
 * @param {string} key
 * @param {Record<string, string | number>} [params]
 * @returns {string}
 */
export function t(key, params = {}) {
  const words = known[current][key] ?? known.en[key] ?? key;
  return words.replace(/\{(\w+)\}/g, (whole, name) => (name in params ? said(params[name]) : whole));
}

/** @param {string | number | undefined} value */
function said(value) {
  return typeof value === "number" ? number(value) : String(value);
}

/**
 * So many of something: `key.one` or `key.other`, with `{n}`.
 * @param {number} n
 * @param {string} key
 */
export function count(n, key) {
  return t(`${key}.${new Intl.PluralRules(current).select(n) === "one" ? "one" : "other"}`, { n });
}

/**
 * @param {number} value
 * @param {Intl.NumberFormatOptions} [how]
 */
export function number(value, how) {
  return new Intl.NumberFormat(locale(), how).format(value);
}

/**
 * A moment: the time if it was today, else the day too.
 * @param {number} ms
 * @param {number} [now]
 */
export function when(ms, now = Date.now()) {
  const moment = new Date(ms);
  const time = /** @type {const} */ ({ hour: "2-digit", minute: "2-digit" });
  const day = /** @type {const} */ ({ day: "numeric", month: "short" });
  const near = Math.abs(now - ms) < 200 * DAY;
  const today = moment.toDateString() === new Date(now).toDateString();
  const how = today ? time : near ? { ...day, ...time } : { ...day, year: /** @type {const} */ ("numeric") };
  return new Intl.DateTimeFormat(locale(), how).format(moment);
}

/**
 * A moment to the second, for a title or a record.
 * @param {number} ms
 */
export function moment(ms) {
  return new Intl.DateTimeFormat(locale(), { dateStyle: "medium", timeStyle: "medium" }).format(new Date(ms));
}

/**
 * How long something took, in three figures at most.
 * @param {number} us
 */
export function duration(us) {
  if (us < 1_000) return `${number(Math.round(us))} µs`;
  if (us < 999_500) return `${number(us / 1_000, { maximumSignificantDigits: us < 100_000 ? 2 : 3 })} ms`;
  const seconds = us / 1_000_000;
  if (seconds < 59.95) return `${number(seconds, { maximumFractionDigits: 1 })} s`;
  const whole = Math.round(seconds);
  if (whole < 3_600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3_600)} h ${Math.floor((whole % 3_600) / 60)} min`;
}

/**
 * Bytes, as people say them.
 * @param {number} bytes
 */
export function size(bytes) {
  const units = ["B", "kB", "MB", "GB"];
  const step = Math.min(units.length - 1, bytes < 1_000 ? 0 : Math.floor(Math.log10(bytes) / 3));
  return `${number(bytes / 1_000 ** step, { maximumFractionDigits: step ? 1 : 0 })} ${units[step]}`;
}
