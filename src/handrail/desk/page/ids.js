/** Names that nobody else has. Not `crypto.randomUUID`: over plain HTTP from another machine a browser has none. */

/** @returns {string} As a UUID is written. */
export function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4}).(.{3}).(.{3})(.{12})$/, "$1-$2-4$3-8$4-$5");
}
