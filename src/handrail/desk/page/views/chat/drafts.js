/**
 * What was written and not sent. Words, and which message they are to replace, are still there after a reload; files and
 * what was picked live as long as the page, and the browser asks before it lets files go.
 */

/** @import { Choice } from "./pickers.js" */

/**
 * @typedef {object} Draft
 * @property {string} text
 * @property {number | null} upto The message that it takes the place of.
 * @property {File[]} files
 * @property {Choice | null} choice For a conversation that is not begun yet.
 */
/** @typedef {{ of: (id: string) => Draft, keep: (id: string, news: Partial<Draft>) => void }} Drafts */

const KEY = "handrail.written.";
/** @type {Draft} */
const NOTHING = { text: "", upto: null, files: [], choice: null };

/**
 * Those of this page.
 * @param {Map<string, any>} kept What the page keeps for its views.
 * @returns {Drafts}
 */
export function drafts(kept) {
  const known = kept.get(KEY);
  if (known) return known;
  /** @type {Map<string, Draft>} */
  const held = new Map();
  const made = {
    of: (/** @type {string} */ id) => held.get(id) ?? { ...NOTHING, ...stored(id) },
    /** @param {string} id @param {Partial<Draft>} news */
    keep(id, news) {
      const now = { ...made.of(id), ...news };
      held.set(id, now);
      store(id, now);
    },
  };
  kept.set(KEY, made);
  addEventListener("beforeunload", (event) => {
    if ([...held.values()].some(({ files }) => files.length)) event.preventDefault();
  });
  return made;
}

/** @param {string} id @returns {Partial<Draft>} */
function stored(id) {
  try {
    const { text, upto } = JSON.parse(sessionStorage.getItem(KEY + id) ?? "{}");
    return { text: String(text ?? ""), upto: Number.isInteger(upto) ? upto : null };
  } catch {
    return {}; // a browser that keeps nothing for pages
  }
}

/** @param {string} id @param {Draft} draft */
function store(id, { text, upto }) {
  try {
    if (text) sessionStorage.setItem(KEY + id, JSON.stringify({ text, upto }));
    else sessionStorage.removeItem(KEY + id);
  } catch {
    // A browser that keeps nothing, or has no room for so much: then it lives as long as the page.
  }
}
