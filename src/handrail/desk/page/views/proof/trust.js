/**
 * The verifier key that the person has compared and trusts, kept in this browser, one for each record by its name.
 * A browser that keeps nothing trusts nothing.
 */

const PLACE = "handrail.trusted-keys";

/** @typedef {{key: string, at: number}} Trusted */

/** @returns {Record<string, Trusted>} */
function all() {
  try {
    const found = JSON.parse(localStorage.getItem(PLACE) ?? "{}");
    return typeof found === "object" && found !== null ? found : {};
  } catch {
    return {};
  }
}

/**
 * @param {string} origin
 * @returns {Trusted | undefined}
 */
export function trusted(origin) {
  const kept = all();
  return Object.hasOwn(kept, origin) ? kept[origin] : undefined;
}

/**
 * @param {string} origin
 * @param {string | null} key null: no longer.
 */
export function trust(origin, key) {
  const { [origin]: _, ...others } = all();
  const kept = key === null ? others : { ...others, [origin]: { key, at: Date.now() } };
  try {
    localStorage.setItem(PLACE, JSON.stringify(kept));
  } catch {
    // Then it is asked again next time.
  }
}
