// The tab Configuration: shows that there are changes, and keeps the reader from losing them.
"use strict";

(() => {
  const $ = (selector) => document.querySelector(selector);
  let stored = null;

  function same(one, other) {
    const [a, b] = [JSON.parse(one), JSON.parse(other)];
    const names = new Set([...Object.keys(a), ...Object.keys(b)]);
    return [...names].every((name) => a[name] === b[name]);
  }
  function look() {
    const editor = $("[data-config-editor]");
    if (!editor || stored === null) return;
    const changed = !same(stored, $("#config").value) || Boolean($("[data-config-json-problem]").textContent);
    $("#save-bar").hidden = !changed;
    editor.toggleAttribute("data-unsaved", changed);
  }
  function begin() { stored = $("#config")?.value ?? null; look(); }

  document.addEventListener("DOMContentLoaded", () => setTimeout(begin, 0)); // after the editor put its text in
  document.addEventListener("htmx:afterSettle", (event) => { if (event.detail.target?.id === "configuration" || event.target.id === "configuration") begin(); });
  document.addEventListener("change", (event) => { if (event.target.id === "config") look(); });
  document.addEventListener("input", (event) => { if (event.target.matches("[data-config-json]")) look(); });
  document.addEventListener("click", (event) => {
    if (event.target.closest?.("#discard, [data-leave]")) $("[data-config-editor]").removeAttribute("data-unsaved");
  });
})();
