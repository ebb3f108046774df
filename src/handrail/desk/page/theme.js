/** The colours that the person chose, before anything is drawn: this runs in the head, alone. */
try {
  const chosen = localStorage.getItem("handrail.theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // A browser that keeps nothing for pages: then the system says.
}
