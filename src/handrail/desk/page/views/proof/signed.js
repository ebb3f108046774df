/**
 * What a checkpoint is and what it signs: a C2SP signed note, an Ed25519 key, the Merkle tree of RFC 9162.
 *
 * Only WebCrypto: no DOM, no words for people, nothing of the node. `proof/verifier.py` is the same in Python, and
 * both must come to the same answer.
 */

/** Why something cannot be accepted: a code that the view has words for. */
export class Bad extends Error {
  /**
   * @param {string} code
   * @param {Record<string, string | number>} [params]
   */
  constructor(code, params = {}) {
    super(code);
    this.code = code;
    this.params = params;
  }
}

/**
 * @typedef {{name: string, data: Bytes}} Signature `data` begins with the id of its key.
 * @typedef {{text: string, origin: string, size: number, root: Bytes, runs: {run: string, entries: number}[],
 *   signatures: Signature[]}} Note
 * @typedef {{name: string, id: string, public: Bytes}} Key
 * @typedef {Uint8Array<ArrayBuffer>} Bytes
 */

const RUN_LINE = /^handrail-run ([^ ]*) (0|[1-9][0-9]{0,17})$/;
const encoder = new TextEncoder();

/**
 * Whether this browser can check, and if not, why: a browser has WebCrypto only on https and on loopback.
 *
 * @returns {Promise<"" | "insecure" | "no-ed25519">}
 */
export async function unable() {
  if (!globalThis.crypto?.subtle) return "insecure";
  try {
    await crypto.subtle.importKey("raw", new Uint8Array(32), { name: "Ed25519" }, false, ["verify"]);
    return "";
  } catch {
    return "no-ed25519";
  }
}

/**
 * @param {Bytes[]} pieces
 * @returns {Promise<Bytes>}
 */
export async function sha256(...pieces) {
  const whole = new Uint8Array(pieces.reduce((size, piece) => size + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.length;
  }
  return new Uint8Array(await crypto.subtle.digest("SHA-256", whole));
}

/** @param {string} text @returns {Bytes} */
export function bytes(text) {
  return encoder.encode(text);
}

/** @param {Bytes} data */
export function hex(data) {
  return Array.from(data, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/**
 * @param {unknown} text
 * @param {number} size
 * @returns {Bytes}
 */
export function unhex(text, size) {
  if (typeof text !== "string" || text.length !== 2 * size || !/^[0-9a-f]*$/.test(text)) throw new Bad("garbled");
  return Uint8Array.from({ length: size }, (_, at) => parseInt(text.slice(2 * at, 2 * at + 2), 16));
}

/**
 * Bytes of base64 in its one proper spelling.
 *
 * @param {string} text
 * @returns {Bytes}
 */
export function unbase64(text) {
  try {
    const data = atob(text);
    if (btoa(data) === text) return Uint8Array.from(data, (letter) => letter.charCodeAt(0));
  } catch {
    // It is told below, as what is base64 in another spelling.
  }
  throw new Bad("garbled");
}

/** @param {string} leaf */
export function leafHash(leaf) {
  return sha256(Uint8Array.of(0), bytes(leaf));
}

/**
 * RFC 9162, 2.1.3.2: whether a leaf stands at an index of the tree with this root.
 *
 * @param {Bytes} hash
 * @param {number} index
 * @param {number} size
 * @param {Bytes[]} proof
 * @param {Bytes} root
 */
export async function included(hash, index, size, proof, root) {
  if (!(index >= 0 && index < size)) return false;
  let [node, last, found] = [index, size - 1, hash];
  for (const step of proof) {
    if (last === 0) return false;
    const right = node % 2 === 1 || node === last;
    found = await sha256(Uint8Array.of(1), ...(right ? [step, found] : [found, step]));
    while (right && node && node % 2 === 0) [node, last] = [half(node), half(last)];
    [node, last] = [half(node), half(last)];
  }
  return last === 0 && hex(found) === hex(root);
}

/** @param {number} number */
function half(number) {
  return Math.floor(number / 2);
}

/**
 * @param {unknown} note
 * @returns {Note}
 */
export function parseNote(note) {
  if (typeof note !== "string") throw new Bad("note-garbled");
  const blank = note.lastIndexOf("\n\n");
  const [text, tail] = [note.slice(0, blank), note.slice(blank + 2)];
  const [origin, size, root, ...extensions] = text.split("\n");
  if (blank < 0 || !tail.endsWith("\n") || /[\0-\x09\x0b-\x1f]/.test(note)) throw new Bad("note-garbled");
  if (!origin || root === undefined || !/^(0|[1-9][0-9]{0,15})$/.test(size)) throw new Bad("note-garbled");
  const hash = unbase64(root);
  if (hash.length !== 32) throw new Bad("note-garbled");
  const signatures = tail.slice(0, -1).split("\n").slice(0, 100).map(signature);
  const runs = extensions.flatMap(runOf);
  return { text: `${text}\n`, origin, size: Number(size), root: hash, runs, signatures };
}

/** @param {string} line */
function runOf(line) {
  const found = RUN_LINE.exec(line);
  try {
    return found ? [{ run: decodeURIComponent(found[1]), entries: Number(found[2]) }] : [];
  } catch {
    throw new Bad("note-garbled");
  }
}

/**
 * @param {string} line
 * @returns {Signature}
 */
function signature(line) {
  const found = /^\u2014 ([^ ]+) (.+)$/.exec(line);
  if (!found) throw new Bad("note-garbled");
  return { name: found[1], data: unbase64(found[2]) };
}

/**
 * @param {unknown} text `name+id+base64`
 * @returns {Promise<Key>}
 */
export async function parseKey(text) {
  const found = typeof text === "string" ? /^([^+]*)\+([^+]*)\+([^]*)$/.exec(text) : null;
  if (!found) throw new Bad("no-key");
  const [, name, id, encoded] = found;
  const data = unbase64(encoded);
  if (data.length !== 33 || data[0] !== 1) throw new Bad("no-key");
  const hashed = await sha256(bytes(`${name}\n`), data);
  if (hex(hashed.slice(0, 4)) !== id) throw new Bad("key-changed");
  return { name, id, public: data.slice(1) };
}

/**
 * @param {Note} note
 * @param {Key} key
 * @throws {Bad} It is not signed by this key, or was changed after it was.
 */
export async function checkSignature(note, key) {
  const mine = note.signatures.filter(({ name, data }) => name === key.name && hex(data.slice(0, 4)) === key.id);
  if (!mine.length) throw new Bad("other-signer", { key: `${key.name}+${key.id}` });
  const known = await crypto.subtle.importKey("raw", key.public, { name: "Ed25519" }, false, ["verify"]);
  for (const { data } of mine) {
    const good = await crypto.subtle.verify({ name: "Ed25519" }, known, data.slice(4), bytes(note.text));
    if (!good) throw new Bad("bad-signature");
  }
}
