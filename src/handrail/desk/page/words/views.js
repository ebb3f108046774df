/** What the views Tools, Proof, Network and Settings say alike. */

export const en = {
  "views.again": "Try again",
  "views.outcome.ok": "ok",
  "views.outcome.unknown_tool": "no such tool",
  "views.outcome.invalid_arguments": "arguments refused",
  "views.outcome.forbidden": "forbidden",
  "views.outcome.denied": "denied",
  "views.outcome.needs_confirmation": "waiting for approval",
  "views.outcome.timeout": "timed out",
  "views.outcome.failed": "failed",
  "views.outcome.cancelled": "cancelled",
  "views.outcome.in_doubt": "in doubt",
  "views.outcome.limit": "limit reached",
};

/** @type {typeof en} */
export const de = {
  "views.again": "Noch einmal",
  "views.outcome.ok": "ok",
  "views.outcome.unknown_tool": "gibt es nicht",
  "views.outcome.invalid_arguments": "Argumente passen nicht",
  "views.outcome.forbidden": "nicht gestattet",
  "views.outcome.denied": "abgelehnt",
  "views.outcome.needs_confirmation": "wartet auf Freigabe",
  "views.outcome.timeout": "Zeit abgelaufen",
  "views.outcome.failed": "gescheitert",
  "views.outcome.cancelled": "angehalten",
  "views.outcome.in_doubt": "ungewiss",
  "views.outcome.limit": "Grenze erreicht",
};
