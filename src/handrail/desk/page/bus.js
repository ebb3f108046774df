/**
 * Calls to the node, over its WebSocket protocol (docs/node.md): one socket for each call.
 *
 * A call whose socket is lost is taken up again under its own id, and never made a second time by itself: the node
 * knows what may be done twice. Who cannot find out what became of a call is told so (`in_doubt`).
 */

import { newId } from "./ids.js";
import { refused, token } from "./token.js";
import { t } from "./words.js";

/** @typedef {(event: string, data: any) => void} OnFrame */
/** @typedef {{capability: string, version: string, request_id: string, interactive: false, body: object}} Envelope */

const PATH = "/bus/v1/call";
const PROTOCOL = "hearthnet-bus.v2";
/** A subprotocol that begins so is the token: a page cannot set headers on a socket. */
const TOKEN_PROTOCOL = "hntoken.";
/** Characters of a first message that a node reads before it knows who sends it. */
const SMALL = 16 * 1024;
/** Frames between acks; and how long a silent stream waits before it repeats one. */
const EVERY = 8;
const IDLE = 60_000;
/** Before coming back: the first delay, the longest, and for how long a single call tries. */
const FIRST = 250;
const LONGEST = 5_000;
const PATIENCE = 12_000;

/** Another token may help. */
const TOKEN = new Set([
  "unauthorized", "invalid_signature", "token_invalid", "token_revoked", "token_expired", "token_scope_insufficient", "expired", "revoked",
]);
/** The token is a good one, for less than this. */
const NARROW = new Set(["unauthorized", "token_scope_insufficient"]);
/** It may be otherwise in a moment. */
const LATER = new Set(["timeout", "rate_limited", "capacity_exceeded", "partition", "cancelled"]);
/** A mistake of the node is no lost connection: so often in a row, and it is said. */
const BROKEN = "internal_error";
const MOST_BROKEN = 3;

/** What a socket says that was closed without a last frame, and need not be opened again.
 * @type {Record<number, (reason: string) => CallError | null>}
 */
const CLOSED = {
  1008: (reason) => (reason ? new CallError("unauthorized", reason, "forbidden") : null),
  1009: () => new CallError("bad_request", t("shell.lost.too_large")),
};

/** A call that gave no answer. `in_doubt` is that it may have had its effect, and nobody knows. */
export class CallError extends Error {
  /**
   * @param {string} code
   * @param {string} message
   * @param {string} [outcome]
   */
  constructor(code, message, outcome = "failed") {
    super(message);
    this.name = "CallError";
    this.code = code;
    this.outcome = outcome;
  }
}

/** The socket closed before the last frame: the call is as it was. */
class Lost extends Error {
  /** @param {boolean} said Whether the node may have heard of the call. */
  constructor(said) {
    super("the socket was lost");
    this.said = said;
  }
}

/**
 * One question, one answer.
 * @param {string} capability
 * @param {object} [input]
 * @param {{signal?: AbortSignal}} [options]
 * @returns {Promise<any>}
 */
export async function ask(capability, input = {}, { signal } = {}) {
  /** @type {any} */
  let answer;
  try {
    await stream(capability, input, (event, data) => event === "answer" && (answer = data), { signal });
  } catch (error) {
    // Only the end of the stream was lost.
    if (answer === undefined || !(error instanceof CallError) || error.code !== "partition") throw error;
  }
  return answer ?? {};
}

/**
 * Frames until the stream ends. A lost socket is taken up where it was.
 * @param {string} capability
 * @param {object} input
 * @param {OnFrame} onFrame
 * @param {{signal?: AbortSignal}} [options]
 * @returns {Promise<void>}
 */
export async function stream(capability, input, onFrame, { signal } = {}) {
  const call = new Attempts(capability, input, onFrame, signal);
  let delay = FIRST;
  let seen = -1;
  let since = 0;
  while (true) {
    const begun = performance.now();
    try {
      return await call.once();
    } catch (error) {
      if (!(error instanceof Lost)) throw error;
      // It got somewhere: what counts is the time in which it does not.
      if (call.seq > seen || performance.now() - begun > PATIENCE) [seen, since, delay] = [call.seq, performance.now(), FIRST];
      if (performance.now() - since > PATIENCE) throw call.givenUp();
    }
    await pause(delay, signal);
    delay = Math.min(delay * 2, LONGEST);
  }
}

/**
 * A stream for as long as somebody wants it, whatever happens to the node. It ends when `signal` says so, and fails
 * when asking again cannot help.
 * @param {string} capability
 * @param {() => object} makeInput Called for each attempt: it says from where.
 * @param {OnFrame} onFrame
 * @param {{signal: AbortSignal, onState?: (state: "open" | "lost") => void}} options
 * @returns {Promise<void>}
 */
export async function follow(capability, makeInput, onFrame, { signal, onState = () => {} }) {
  let delay = FIRST;
  let broken = 0;
  while (!signal.aborted) {
    const begun = performance.now();
    try {
      await new Attempts(capability, makeInput(), onFrame, signal, () => onState("open")).once();
    } catch (error) {
      if (signal.aborted) return;
      broken = error instanceof CallError && error.code === BROKEN ? broken + 1 : 0;
      const passing = error instanceof Lost || (error instanceof CallError && LATER.has(error.code));
      if (!passing && (broken === 0 || broken === MOST_BROKEN)) throw error;
    }
    if (signal.aborted) return;
    onState("lost");
    if (performance.now() - begun > LONGEST) [delay, broken] = [FIRST, 0];
    await pause(delay, signal).catch(() => {});
    delay = Math.min(delay * 2, LONGEST);
  }
}

/** One call, over as many sockets as it takes. */
class Attempts {
  /**
   * @param {string} capability
   * @param {object} input
   * @param {OnFrame} onFrame
   * @param {AbortSignal} [signal]
   * @param {() => void} [onOpen]
   */
  constructor(capability, input, onFrame, signal, onOpen = () => {}) {
    /** @type {Envelope} */
    this.envelope = { capability, version: "1.0", request_id: newId(), interactive: false, body: { input } };
    this.onFrame = onFrame;
    this.signal = signal;
    this.onOpen = onOpen;
    /** The last frame that came. */
    this.seq = 0;
    /** Whether the node may have heard of it. */
    this.said = false;
  }

  /** Until its end, with another token if the node does not take this one. */
  async once() {
    while (true) {
      this.signal?.throwIfAborted();
      const used = token();
      try {
        return await this.onSocket(used);
      } catch (error) {
        if (error instanceof Lost) this.said ||= error.said;
        if (!(error instanceof CallError) || !aboutToken(error)) throw error;
        // Refused the first time, it did not begin; later, that says nothing about the first time.
        await refused(used, error.message, NARROW.has(error.code));
      }
    }
  }

  /** @returns {CallError} */
  givenUp() {
    if (this.said) return new CallError("partition", t("shell.lost.in_doubt"), "in_doubt");
    return new CallError("partition", t("shell.lost.unreachable"));
  }

  /** @param {string} used */
  first(used) {
    const envelope = used ? { ...this.envelope, token: used } : this.envelope;
    if (!this.said) return { type: "call", envelope };
    const { request_id, ...again } = envelope;
    return { type: "resume", request_id, after: this.seq, envelope: again };
  }

  /**
   * @param {string} used The token.
   * @returns {Promise<void>}
   */
  onSocket(used) {
    return new Promise((resolve, reject) => {
      const first = JSON.stringify(this.first(used));
      const protocols = used && first.length > SMALL ? [PROTOCOL, TOKEN_PROTOCOL + base64url(used)] : [PROTOCOL];
      const socket = new WebSocket(`${location.origin.replace(/^http/, "ws")}${PATH}`, protocols);
      let opened = false;
      let ended = false;
      const ack = () => socket.readyState === WebSocket.OPEN && say(socket, { type: "ack", upto: this.seq });
      const idle = setInterval(ack, IDLE);

      /** @param {() => void} settle */
      const end = (settle) => {
        if (ended) return;
        ended = true;
        clearInterval(idle);
        this.signal?.removeEventListener("abort", aborted);
        // One that is not open yet is closed when it is: a browser complains of what is closed before.
        if (socket.readyState !== WebSocket.CONNECTING) socket.close();
        settle();
      };
      const aborted = () => {
        if (socket.readyState === WebSocket.OPEN) say(socket, { type: "cancel" });
        end(() => reject(this.signal?.reason));
      };
      this.signal?.addEventListener("abort", aborted);

      socket.addEventListener("open", () => {
        if (ended) return socket.close();
        opened = true;
        socket.send(first);
        this.onOpen();
      });
      /** @param {any} frame */
      const took = (frame) => {
        if (typeof frame.seq !== "number" || (frame.event !== "error" && frame.seq <= this.seq)) return;
        if (frame.event === "done") return end(resolve);
        if (frame.event === "error") return end(() => reject(failure(frame.data)));
        this.seq = frame.seq;
        if (this.seq % EVERY === 0) ack();
        this.onFrame(frame.event, frame.data);
      };
      socket.addEventListener("message", ({ data }) => {
        if (ended) return;
        try {
          took(JSON.parse(data));
        } catch (error) {
          end(() => reject(error));
        }
      });
      socket.addEventListener("close", ({ code, reason }) => {
        end(() => reject(CLOSED[code]?.(reason) ?? new Lost(opened)));
      });
    });
  }
}

/**
 * Whether another token may help. One that was cut off when it was copied is a bad request, and forbidden.
 * @param {CallError} error
 */
function aboutToken(error) {
  return TOKEN.has(error.code) || (error.code === "bad_request" && error.outcome === "forbidden");
}

/** @param {string} text */
function base64url(text) {
  const bytes = Array.from(new TextEncoder().encode(text), (byte) => String.fromCharCode(byte)).join("");
  return btoa(bytes).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/**
 * @param {WebSocket} socket
 * @param {object} message
 */
function say(socket, message) {
  socket.send(JSON.stringify(message));
}

/**
 * @param {any} data
 * @returns {CallError}
 */
function failure(data) {
  const { error = "internal_error", message = "", outcome = "failed" } = data ?? {};
  const unknown = error === "partition" && outcome === "in_doubt";
  return new CallError(String(error), unknown ? t("shell.lost.in_doubt") : String(message || error), String(outcome));
}

/**
 * @param {number} ms
 * @param {AbortSignal} [signal]
 * @returns {Promise<void>}
 */
function pause(ms, signal) {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const stop = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, ms);
    signal?.addEventListener("abort", stop, { once: true });
  });
}
