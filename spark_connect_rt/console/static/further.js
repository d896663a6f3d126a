// What the pages beside the list of connectors do in the browser: read themselves again, take in live events, find in
// lists. Everything shown is made by the worker's templates.
"use strict";

(() => {
  const $ = (selector, within = document) => within.querySelector(selector);

  // A part with data-refresh="5" asks for itself every 5 s, while it is seen and nobody is at work in it.
  const asked = new WeakMap();
  setInterval(() => {
    if (document.hidden || $("#dialog").open) return;
    for (const part of document.querySelectorAll("[data-refresh]")) {
      const last = asked.get(part) ?? performance.now();
      if (!asked.has(part)) asked.set(part, last);
      if (performance.now() - last < Number(part.dataset.refresh) * 1000) continue;
      const always = "refreshAlways" in part.dataset;
      if (!always && (part.contains(document.activeElement) || part.matches(":hover"))) continue;
      asked.set(part, performance.now());
      htmx.trigger(part, "refresh");
    }
  }, 1000);

  // What was just done reaches this worker by way of Kafka: what it changed is read a second and a third time.
  document.addEventListener("console:changed", () => {
    for (const wait of [1500, 5000]) {
      setTimeout(() => document.querySelectorAll("[data-refresh]").forEach((part) => htmx.trigger(part, "refresh")), wait);
    }
  });

  // What somebody unfolded, ticked or typed stays so when a part is read again.
  const kept = new Map();
  const rowOf = (one) => one.closest("tr, li")?.querySelector("th, b, a")?.textContent ?? "";
  const keyOf = (one) => `${rowOf(one)} ${one.querySelector("summary")?.textContent}`.replace(/\d[\d,.]*|now/g, "").replace(/\s+/g, " ");
  const nameOf = (one) => `${one.name} ${["checkbox", "radio"].includes(one.type) ? one.value : ""}`;
  const inputs = (part) => [...part.querySelectorAll("input:not([type=hidden]), select, textarea")].filter((one) => one.name);
  document.addEventListener("htmx:beforeSwap", (event) => {
    const { target } = event.detail;
    if (!target?.matches?.("[data-refresh]")) return;
    kept.set(target.id, {
      open: new Map([...target.querySelectorAll("details")].map((one) => [keyOf(one), one.open])),
      typed: new Map(inputs(target).filter((one) => one.checked !== one.defaultChecked || (one.defaultValue ?? one.value) !== one.value)
        .map((one) => [nameOf(one), [one.checked, one.value]])),
    });
  });
  document.addEventListener("htmx:afterSettle", (event) => {
    const part = event.detail.elt;
    const before = part && kept.get(part.id);
    if (!before) return;
    kept.delete(part.id);
    for (const one of part.querySelectorAll("details")) if (before.open.has(keyOf(one))) one.open = before.open.get(keyOf(one));
    for (const one of inputs(part)) if (before.typed.has(nameOf(one))) [one.checked, one.value] = before.typed.get(nameOf(one));
  });

  // A replay that has ended has marked letters.
  let states = null;
  document.addEventListener("htmx:afterSettle", (event) => {
    if (event.detail.elt?.id !== "replays") return;
    const now = $("[data-states]", event.detail.elt)?.dataset.states ?? "";
    const letters = $("#letters");
    if (states !== null && states !== now && letters) htmx.trigger(letters, "refresh");
    states = now;
  });

  // Events: the newest on top; 500 are kept; those held back come in when they are let in.
  const MOST = 500;
  let stream = null;
  let held = [];
  function events() {
    const list = $("[data-live-events]");
    if (!list) { stream?.close(); stream = null; return; }
    const state = $("[data-live-state]");
    const hold = $("[data-hold]");
    const seen = (id) => [...list.children].some((one) => one.dataset.event === id);
    const show = () => { state.textContent = held.length ? `${held.length} new` : ""; };
    function put(one) {
      const line = connectrt.fragment(one.html);
      connectrt.times(line);
      list.prepend(line);
      $("[data-no-events]")?.remove();
      while (list.children.length > MOST) list.lastElementChild.remove();
    }
    held = [];
    stream?.close();
    stream = connectrt.live(list.dataset.liveEvents, {
      event(one) {
        if (one.id && seen(one.id)) return;
        if (hold.checked) { if (!held.some((it) => it.id === one.id)) held.push(one); show(); return; }
        put(one);
        connectrt.say(one.words);
      },
      problem(one) { state.textContent = `Live events stopped: ${one.message}`; },
    });
    hold.onchange = () => {
      if (!hold.checked) { held.forEach(put); held = []; }
      show();
    };
    show();
  }

  function finders() {
    for (const input of document.querySelectorAll("[data-find-in]:not([data-started])")) {
      input.dataset.started = "";
      input.addEventListener("input", () => {
        const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
        for (const group of $(input.dataset.findIn).querySelectorAll("details")) {
          let some = false;
          for (const one of group.querySelectorAll("[data-find]")) {
            const found = words.every((word) => one.dataset.find.toLowerCase().includes(word));
            one.hidden = !found;
            some ||= found;
          }
          group.hidden = !some;
          if (words.length && some) group.open = true;
        }
      });
    }
  }

  document.addEventListener("change", (event) => { // the box above a column of boxes
    const name = event.target.dataset?.tickAll;
    if (!name) return;
    for (const one of document.querySelectorAll(`input[type=checkbox][name="${CSS.escape(name)}"]`)) one.checked = event.target.checked;
  });

  function start() { events(); finders(); }
  document.addEventListener("DOMContentLoaded", start);
  document.addEventListener("htmx:afterSettle", (event) => {
    finders();
    for (const input of document.querySelectorAll("[data-find-in]")) if (input.value) input.dispatchEvent(new Event("input"));
    if (event.detail.elt?.id === "events-page" || event.detail.elt?.querySelector?.("[data-live-events]")) events();
  });
})();
