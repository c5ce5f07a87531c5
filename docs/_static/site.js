// Opened as files, pages may not read each other: the search then shows titles without excerpts, and logs no error.
if (location.protocol === "file:" && window.DOCUMENTATION_OPTIONS) {
  window.DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
}
