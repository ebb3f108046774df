/**
 * Whether what a node sent of a run is what was recorded and signed. Nothing that the node says is believed but by
 * its signature: each entry is hashed here and followed to the signed root, each body to the digest in its entry.
 *
 * No DOM and no words for people: problems are codes (`Bad`), and the view says them.
 */

import { Bad, bytes, checkSignature, hex, included, leafHash, parseKey, parseNote, sha256, unhex } from "./signed.js";

export { Bad, unable } from "./signed.js";

/**
 * @typedef {import("../../values.js").EntryRow} EntryRow
 * @typedef {import("../../values.js").RunPage} RunPage
 * @typedef {{code: string, params: Record<string, string | number>}} Problem
 * @typedef {"none" | "fits" | "erased" | "unseen"} BodyState `unseen`: too long to have come with the others.
 * @typedef {{n: number, leaf: Record<string, any> | null, problems: Problem[], body: BodyState}} Finding
 *   `n` counts the entries of a run from 0. Without problems all of it is as it was signed.
 * @typedef {{where: number, code: string, params: Record<string, string | number>}} Missing
 * @typedef {Object} Receipt
 * @property {string} call_id
 * @property {number} index
 * @property {number} size
 * @property {string} leaf
 * @property {string[]} proof
 * @property {string} checkpoint
 * @property {string} verifier_key
 * @property {string | null} [salt]
 * @property {string | null} [body]
 */

const FIRST = { seq: -1, hash: "0".repeat(64) };

/**
 * A JSON object. A key that stands twice is refused: two readers could see two things.
 *
 * @param {unknown} text
 * @returns {Record<string, any>}
 */
export function parseObject(text) {
  if (typeof text !== "string") throw new Bad("garbled");
  let found;
  try {
    found = JSON.parse(text);
  } catch {
    throw new Bad("garbled");
  }
  if (typeof found !== "object" || found === null || Array.isArray(found)) throw new Bad("garbled");
  const written = text.replace(/"(?:[^"\\]|\\.)*"/g, "").split(":").length - 1;
  if (members(found) !== written) throw new Bad("garbled");
  return found;
}

/**
 * @param {unknown} value
 * @returns {number}
 */
function members(value) {
  if (typeof value !== "object" || value === null) return 0;
  const own = Array.isArray(value) ? 0 : Object.keys(value).length;
  return Object.values(value).reduce((sum, item) => sum + members(item), own);
}

/**
 * @param {Record<string, any>} data
 * @param {string} name
 * @returns {number}
 */
function count(data, name) {
  const value = data[name];
  if (!Number.isSafeInteger(value) || value < 0) throw new Bad("garbled");
  return value;
}

/**
 * The leaf of an entry, if it can be one.
 *
 * @param {unknown} text
 */
export function parseLeaf(text) {
  const leaf = parseObject(text);
  if (leaf.v !== 1) throw new Bad("version");
  return { leaf, seq: count(leaf, "seq"), n: count(leaf, "n"), at: count(leaf, "at") };
}

/**
 * @param {Record<string, any>} leaf
 * @param {{salt?: string | null, body?: string | null, erased?: boolean}} held
 * @returns {Promise<BodyState>}
 */
export async function checkBody(leaf, held) {
  const [salt, body] = [held.salt ?? null, held.body ?? null];
  if (leaf.body === undefined || leaf.body === null) {
    if (salt !== null || body !== null || held.erased) throw new Bad("body-unknown");
    return "none";
  }
  if (body === null) return held.erased ? "erased" : "unseen";
  const data = bytes(body);
  const size = count(leaf.body, "size");
  if (hex(await sha256(unhex(salt, 16), data)) !== leaf.body.digest || data.length !== size) {
    throw new Bad("body-changed");
  }
  return "fits";
}

/**
 * Begins to look at a run. Pages are given in order, each with its entries one by one. All of them must stand under one
 * checkpoint: under two, the beginning of one history could be shown with the end of another.
 *
 * @param {string} run
 * @param {string} [trusted] The verifier key that the person trusts; without one it is the page's own.
 */
export function walk(run, trusted) {
  let before = FIRST;
  let next = 0;
  /** @type {import("./signed.js").Note | null} */
  let note = null;
  /** Entries of the run, as the checkpoint has it. @type {number | null} */
  let signed = null;
  /** What the first page said, and what is wrong with that. @type {{checkpoint: string, problems: Problem[]} | null} */
  let first = null;

  /**
   * The checkpoint under which the following entries are.
   *
   * @param {Pick<RunPage, "checkpoint" | "verifier_key">} page
   * @returns {Promise<Problem[]>} What is wrong with it. Entries may still fit it, but nobody vouches for them.
   */
  async function open(page) {
    if (first === null) first = { checkpoint: page.checkpoint, problems: await read(page) };
    return page.checkpoint === first.checkpoint ? first.problems : [{ code: "other-checkpoint", params: {} }];
  }

  /**
   * @param {Pick<RunPage, "checkpoint" | "verifier_key">} page
   * @returns {Promise<Problem[]>}
   */
  async function read(page) {
    try {
      const found = parseNote(page.checkpoint);
      const [named, ...others] = found.runs;
      if (named === undefined || others.length) throw new Bad("note-garbled");
      note = found;
      signed = named.entries;
      await checkSignature(found, await parseKey(trusted ?? page.verifier_key));
      if (named.run !== run) throw new Bad("other-run", { run: named.run });
      return [];
    } catch (error) {
      return [problem(error)];
    }
  }

  /**
   * @param {EntryRow} row
   * @returns {Promise<Finding>}
   */
  async function entry(row) {
    /** @type {Finding} */
    const finding = { n: next, leaf: null, problems: [], body: "none" };
    try {
      const hash = hex(await proven(row, finding));
      order(finding, row.seq, hash);
      finding.body = await checkBody(/** @type {Record<string, any>} */ (finding.leaf), row);
      compare(finding, row);
    } catch (error) {
      finding.problems.push(problem(error));
      if (finding.leaf === null) next += 1;
    }
    return finding;
  }

  /**
   * @param {EntryRow} row
   * @param {Finding} finding
   */
  async function proven(row, finding) {
    const { leaf, seq, n } = parseLeaf(row.leaf);
    if (seq !== row.seq) throw new Bad("other-place");
    const hash = await leafHash(row.leaf);
    if (note !== null) {
      const proof = row.proof.map((step) => unhex(step, 32));
      if (!(await included(hash, seq, note.size, proof, note.root))) throw new Bad("not-signed");
    }
    if (text(leaf.run) !== run) throw new Bad("other-run", { run: text(leaf.run) });
    finding.leaf = leaf;
    finding.n = n;
    return hash;
  }

  /**
   * @param {Finding} finding
   * @param {number} seq
   * @param {string} hash
   */
  function order(finding, seq, hash) {
    const prev = finding.leaf?.prev;
    if (finding.n > next) finding.problems.push(gap(next, finding.n));
    if (finding.n < next) {
      finding.problems.push({ code: "order", params: { n: next - 1 } });
      return;
    }
    if (seq <= before.seq) finding.problems.push({ code: "earlier", params: {} });
    if (seq === before.seq + 1 && prev !== before.hash) finding.problems.push({ code: "chain", params: {} });
    next = finding.n + 1;
    before = { seq, hash };
  }

  return {
    open,
    entry,
    /**
     * After the last entry: whether there are as many as were signed.
     *
     * @returns {Problem[]}
     */
    finish() {
      if (signed === null) return [];
      if (next < signed) return [gap(next, signed)];
      return next > signed ? [{ code: "too-many", params: { count: signed } }] : [];
    },
  };
}

/**
 * What is shown of an entry beside its leaf must be what the leaf says.
 *
 * @param {Finding} finding
 * @param {EntryRow} row
 */
function compare(finding, row) {
  if (finding.leaf?.type !== row.type || finding.leaf?.at !== row.at) throw new Bad("differs");
}

/**
 * Whether a receipt shows that its entry stands in the signed journal. Returns its leaf.
 *
 * @param {Receipt} receipt
 * @param {string} [trusted]
 * @throws {Bad}
 */
export async function checkReceipt(receipt, trusted) {
  const note = parseNote(receipt.checkpoint);
  await checkSignature(note, await parseKey(trusted ?? receipt.verifier_key));
  const { leaf, seq } = parseLeaf(receipt.leaf);
  const proof = (receipt.proof ?? []).map((step) => unhex(step, 32));
  const hash = await leafHash(receipt.leaf);
  if (note.size !== receipt.size || !(await included(hash, receipt.index, note.size, proof, note.root))) {
    throw new Bad("not-signed");
  }
  if (seq !== receipt.index || text(leaf.call_id) !== receipt.call_id) throw new Bad("other-place");
  const gone = (receipt.body ?? null) === null;
  const body = await checkBody(leaf, gone ? { erased: leaf.body !== undefined } : receipt);
  return { leaf, note, body };
}

/**
 * A text of a leaf: what JSON could not say is written as `{"$text": hex}` there.
 *
 * @param {unknown} value
 * @returns {string}
 */
export function text(value) {
  if (typeof value === "string") return value;
  const code = /** @type {{$text?: unknown} | null} */ (value)?.$text;
  return typeof code === "string" ? `\\u{${code}}` : "";
}

/**
 * @param {number} from
 * @param {number} until
 * @returns {Problem}
 */
function gap(from, until) {
  return until - from === 1 ? { code: "missing", params: { n: from } } : { code: "missing-all", params: { n: from, last: until - 1 } };
}

/**
 * @param {unknown} error
 * @returns {Problem}
 */
function problem(error) {
  if (error instanceof Bad) return { code: error.code, params: error.params };
  throw error;
}
