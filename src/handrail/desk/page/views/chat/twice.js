/** Esc, pressed twice in short order: the first says what the second does. */

const SHORT = 1_500;

/**
 * @param {() => unknown} wanted Whether it means anything now.
 * @param {() => void} first
 * @param {() => void} second
 */
export function twice(wanted, first, second) {
  let last = -SHORT;
  return (/** @type {KeyboardEvent} */ event) => {
    if (event.key !== "Escape" || event.defaultPrevented || !wanted() || document.querySelector("dialog[open]")) return;
    const again = event.timeStamp - last < SHORT;
    last = again ? -SHORT : event.timeStamp;
    if (again) second();
    else first();
  };
}
