// What every page of the console does in the browser: the token of actions, dialogs, times, live values, and going on
// with another worker when this one is gone. Pages use `connectrt`; nothing here evaluates text.
"use strict";

const connectrt = (() => {
  const base = () => document.body.dataset.base;
  const $ = (selector, within = document) => within.querySelector(selector);
  const token = () => $('meta[name="csrf-token"]').content;

  // ---- words -------------------------------------------------------------------------------------------------------
  function say(text) { // read out by screen readers
    const place = $("#announcer");
    place.textContent = "";
    setTimeout(() => { place.textContent = text; }, 50);
  }

  function message(text, kind = "ok", place = $("#messages")) {
    if ([...place.querySelectorAll("p")].some((one) => one.textContent === text)) return; // it stands there
    const box = document.createElement("div");
    box.className = `message ${kind}`;
    const words = document.createElement("p");
    words.textContent = text;
    const close = document.createElement("button");
    close.type = "button"; close.className = "quiet"; close.dataset.dismiss = ""; close.textContent = "✕";
    close.setAttribute("aria-label", "Dismiss this message");
    box.append(words, close);
    place.prepend(box);
  }

  const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  function ago(date) {
    const seconds = Math.round((Date.now() - date) / 1000);
    if (Math.abs(seconds) < 2) return "now";
    const [size, unit] = UNITS.find(([one]) => Math.abs(seconds) >= one) || UNITS[3];
    const count = Math.floor(Math.abs(seconds) / size);
    return seconds > 0 ? `${count} ${unit} ago` : `in ${count} ${unit}`;
  }
  function times(within = document) {
    for (const one of within.querySelectorAll("time[datetime]")) {
      const date = new Date(one.dateTime);
      if (Number.isNaN(date.getTime())) continue;
      const text = ago(date);
      if (one.textContent !== text) one.textContent = text;
      one.title = `${date.toLocaleString()} (${one.dateTime})`;
    }
  }

  // ---- asking this worker ------------------------------------------------------------------------------------------
  // data: {name: text or texts}; signal: of an AbortController. Returns the Response; the caller reads it.
  function post(address, data = {}, signal = undefined) {
    const body = new URLSearchParams();
    for (const [name, value] of Object.entries(data)) for (const one of [value].flat()) body.append(name, one);
    return fetch(address, { method: "POST", body, signal, headers: { "X-CSRF-Token": token(), "HX-Request": "true" } });
  }

  // Nothing moves between the press and the release of a button: what comes meanwhile waits.
  let pressed = false;
  const waiting = [];
  function released() {
    pressed = false;
    setTimeout(() => { while (waiting.length && !pressed) waiting.shift()(); }, 0); // behind the click
  }
  document.addEventListener("pointerdown", () => { pressed = true; }, true);
  for (const name of ["pointerup", "pointercancel"]) document.addEventListener(name, released, true);
  document.addEventListener("pointermove", (event) => { if (pressed && !event.buttons) released(); }, true);
  window.addEventListener("blur", released);

  // Server-sent events while the page is seen; {event: function(value)}. `problem` gets {message, status}.
  // Returns {close, reopen(address)}.
  function live(address, handlers) {
    let source = null, closed = false;
    function open() {
      if (source || closed || document.hidden) return;
      source = new EventSource(address);
      for (const [name, handler] of Object.entries(handlers)) {
        source.addEventListener(name, (event) => {
          waiting.push(() => handler(JSON.parse(event.data), event));
          if (!pressed) released();
        });
      }
      source.addEventListener("problem", () => { shut(); setTimeout(open, 10000); }); // the worker has ended it
      source.addEventListener("error", () => { // a refusal ends it: the browser tries again only by itself after a break
        if (source && source.readyState === EventSource.CLOSED) { shut(); setTimeout(open, 4000); }
      });
    }
    function shut() { if (source) source.close(); source = null; }
    const seen = () => (document.hidden ? shut() : open());
    document.addEventListener("visibilitychange", seen);
    window.addEventListener("pagehide", shut);
    window.addEventListener("pageshow", open);
    open();
    return {
      close() { closed = true; shut(); document.removeEventListener("visibilitychange", seen); },
      reopen(other) { if (other !== address) { address = other; shut(); open(); } },
    };
  }

  // ---- rows that change under the reader -----------------------------------------------------------------------------
  // Text that the worker's templates made, which escape every value: the only way HTML comes into a page.
  function fragment(html) {
    const template = document.createElement("template");
    template.innerHTML = html;
    return template.content;
  }

  // Put a fresh element in the place of an old one: what is ticked, unfolded or focused stays so.
  function replace(old, fresh) {
    const parts = "a, button, input, select, summary, [tabindex]";
    const focused = old.contains(document.activeElement) ? [...old.querySelectorAll(parts)].indexOf(document.activeElement) : -1;
    const [boxes, folds] = [old.querySelectorAll("input[type=checkbox]"), old.querySelectorAll("details")];
    fresh.querySelectorAll("input[type=checkbox]").forEach((one, number) => { one.checked = boxes[number]?.checked ?? false; });
    fresh.querySelectorAll("details").forEach((one, number) => { one.open = folds[number]?.open ?? one.open; });
    old.replaceWith(fresh);
    if (window.htmx) htmx.process(fresh);
    if (focused >= 0) fresh.querySelectorAll(parts)[focused]?.focus();
  }

  // Change a node that was made as `was` into `now`, only where these differ: what is the same stays the very element,
  // with the finger, the keyboard or the request that may be on it. Returns what stands there then.
  function change(node, was, now) {
    if (was.isEqualNode(now)) return node;
    if (now.nodeType === Node.TEXT_NODE) { node.data = now.data; return node; }
    for (const { name } of [...was.attributes]) if (!now.hasAttribute(name) && name !== "open") node.removeAttribute(name);
    for (const { name, value } of now.attributes) if (was.getAttribute(name) !== value) node.setAttribute(name, value);
    const [nodes, before, after] = [node, was, now].map((one) => [...one.childNodes]);
    const alike = (one, number) => [nodes, before].every((them) => them[number]?.nodeName === one.nodeName);
    if (nodes.length === after.length && before.length === after.length && after.every(alike)) {
      after.forEach((one, number) => change(nodes[number], before[number], one));
      return node;
    }
    const fresh = node.cloneNode(false);
    fresh.append(...after);
    replace(node, fresh);
    return fresh;
  }

  const seenAs = new WeakMap(); // row -> the text it was made of
  // changed: {key: html of a row with data-key}. New rows come last. Returns the rows by their keys.
  function rows(body, changed) {
    const made = (html) => fragment(html).firstElementChild;
    const stateOf = (row) => row.querySelector(".state")?.textContent;
    const found = new Map([...body.children].map((row) => [row.dataset.key, row]));
    for (const [key, html] of Object.entries(changed)) {
      const old = found.get(key);
      let row = made(html);
      if (old) {
        const differs = stateOf(old) !== stateOf(row);
        row = change(old, seenAs.has(old) ? made(seenAs.get(old)) : old, row);
        row.classList.toggle("just-changed", differs);
      } else {
        body.append(row);
        if (window.htmx) htmx.process(row);
      }
      seenAs.set(row, html);
      times(row);
      found.set(key, row);
    }
    return found;
  }

  // Keep rows in an order, and none beside it, but move nothing while one points at the table or has the keyboard in it.
  // place(): the body that holds the rows, or null; anyway(): whether rows may move all the same; moved(): they stand.
  // Returns {want(keys), settle()}.
  function ordered(place, { anyway = () => false, moved = () => {} } = {}) {
    let wanted = null;
    function settle() {
      const body = place();
      if (!body || !wanted) return;
      const [keys, rows] = [new Set(wanted), [...body.children]];
      for (const row of rows) row.classList.toggle("gone", !keys.has(row.dataset.key));
      if (!anyway() && (body.matches(":hover") || body.contains(document.activeElement))) return;
      const found = new Map(rows.map((row) => [row.dataset.key, row]));
      for (const row of rows) if (!keys.has(row.dataset.key)) row.remove();
      const order = wanted.filter((key) => found.has(key)).map((key) => found.get(key));
      if (order.some((row, number) => body.children[number] !== row)) body.append(...order);
      wanted = null;
      moved();
    }
    document.addEventListener("focusout", () => setTimeout(settle, 0));
    document.addEventListener("pointerout", (event) => {
      const body = place();
      if (body?.contains(event.target) && !body.contains(event.relatedTarget)) setTimeout(settle, 0);
    });
    return { want(keys) { wanted = keys; settle(); }, settle };
  }

  // ---- the dialog --------------------------------------------------------------------------------------------------
  const dialog = () => $("#dialog");
  function closeDialog() { if (dialog().open) dialog().close(); }

  function dialogMessages() { // what lies behind a dialog cannot be read
    let place = $("#dialog-messages");
    if (!place) {
      place = document.createElement("div");
      place.id = "dialog-messages";
      dialog().append(place);
    }
    place.replaceChildren();
    return place;
  }
  function failed(text) { message(text, "bad", dialog().open ? dialogMessages() : $("#messages")); }

  document.addEventListener("htmx:configRequest", (event) => { event.detail.headers["X-CSRF-Token"] = token(); });
  document.addEventListener("htmx:beforeSwap", (event) => {
    const { detail } = event;
    if (!detail.isError) return;
    if (!detail.xhr.getResponseHeader("HX-Retarget")) { // not the console's own words: a proxy's, a login's
      detail.shouldSwap = false;
      failed(`Probably not carried out: HTTP ${detail.xhr.status} ${detail.xhr.statusText}`);
      return;
    }
    if (!dialog().open) return;
    detail.target = dialogMessages();
  });
  document.addEventListener("htmx:afterSettle", (event) => { // not before: until then a form in it is the browser's own
    if (event.detail.target.id === "dialog" && !dialog().open) dialog().showModal();
  });
  // Before it is painted: what was swapped in has its times in UTC, and the target itself may have been replaced.
  document.addEventListener("htmx:afterSwap", () => times());
  // The next try makes an earlier complaint outdated.
  document.addEventListener("htmx:beforeRequest", (event) => {
    if (event.detail.requestConfig.verb !== "post") return;
    for (const old of document.querySelectorAll("#messages .message.bad")) old.remove();
  });
  const FAILURES = {
    sendError: "This worker does not answer. The action was probably not carried out.",
    timeout: "This worker took too long to answer. The action may or may not have been carried out.",
    onLoadError: "The answer of the worker cannot be shown. Reload the page.",
    targetError: "The answer of the worker cannot be shown. Reload the page.",
    swapError: "The answer of the worker cannot be shown. Reload the page.",
  };
  for (const [name, words] of Object.entries(FAILURES)) document.addEventListener(`htmx:${name}`, () => failed(words));
  // Who asked may have left the page until the answer comes, as a row does: htmx then finds neither #messages nor the
  // body. It stands in a hidden place while the answer is taken in.
  document.addEventListener("htmx:beforeSend", ({ detail: { elt, xhr } }) => {
    for (const name of ["onload", "onerror", "ontimeout"]) {
      const handler = xhr[name];
      xhr[name] = function taken(event) {
        if (elt.isConnected || (name === "onload" && !xhr.getResponseHeader("HX-Retarget") && xhr.status < 400)) {
          handler.call(xhr, event);
          return;
        }
        const aside = document.createElement("div");
        aside.hidden = true;
        aside.append(elt);
        document.body.append(aside);
        try { handler.call(xhr, event); } finally { aside.remove(); }
      };
    }
  });
  document.addEventListener("console:close", closeDialog);
  document.addEventListener("click", (event) => {
    const { target } = event;
    if (!(target instanceof Element)) return;
    if (target.closest("[data-close]")) closeDialog();
    if (target.closest("[data-dismiss]")) target.closest(".message").remove();
    if (target === dialog()) closeDialog();
  });
  setInterval(() => { // a good message need not be dismissed
    for (const one of document.querySelectorAll("#messages .message.ok")) {
      if (one.dataset.old) one.remove(); else one.dataset.old = "1";
    }
  }, 8000);

  // ---- is this worker there? ---------------------------------------------------------------------------------------
  const state = { failures: 0, workers: [], since: 0, staying: false, going: null };
  const unsaved = () => Boolean($("[data-unsaved]"));

  function readWorkers() {
    return [...document.querySelectorAll(".worker-link")].map((one) => one.href.replace(/\/console\/$/, ""));
  }
  function sameTrail(origin) {
    return origin + location.pathname.slice(location.pathname.indexOf("/console")) + location.search;
  }
  function candidates() {
    const found = new Set();
    for (const url of state.workers) {
      try {
        found.add(new URL(url).origin);
      } catch { /* no address */ }
    }
    found.delete(location.origin);
    return [...found];
  }
  async function answers(origin) {
    try { // no-cors: whatever comes back shows that somebody serves there
      await fetch(`${origin}/console/alive`, { mode: "no-cors", cache: "no-store", signal: AbortSignal.timeout(3000) });
      return true;
    } catch { return false; }
  }
  function button(words, act) {
    const one = document.createElement("button");
    one.type = "button"; one.textContent = words; one.addEventListener("click", act);
    return one;
  }
  function banner(text, ...more) {
    const place = $("#lost");
    const words = document.createElement("p");
    words.textContent = text;
    place.replaceChildren(words, ...more);
    place.hidden = false;
  }
  async function lost() {
    const since = new Date(state.since).toLocaleTimeString();
    banner(`This worker has not answered since ${since}. The page shows its last answers. Looking for another worker …`);
    if (state.failures < 2 || state.staying || state.going) return;
    const alive = await Promise.all(candidates().map(async (one) => ((await answers(one)) ? one : null)));
    const other = alive.find(Boolean);
    if (!other) {
      banner(`This worker has not answered since ${since}, and no other worker of the group can be reached from here. Trying again …`);
      return;
    }
    const address = sameTrail(other);
    const go = () => location.assign(address);
    const stay = button("Stay here", () => { state.staying = true; clearTimeout(state.going); state.going = null; lost(); });
    if (unsaved()) {
      banner(`This worker has not answered since ${since}. ${new URL(other).host} serves the group; this page has changes that are not saved.`, button("Go there, without them", go));
      return;
    }
    banner(`This worker has not answered since ${since}. Switching to ${new URL(other).host} …`, button("Go now", go), stay);
    state.going = setTimeout(go, 3000);
  }
  async function alive() {
    if (document.hidden) return;
    try {
      const response = await fetch(`${base()}/alive`, { cache: "no-store", signal: AbortSignal.timeout(4000) });
      if (!response.ok) return; // it lives; what it refuses, the pages say
      const found = await response.json();
      $('meta[name="csrf-token"]').content = found.token;
      if (found.workers.length) state.workers = found.workers.map((one) => one.url);
      if (state.failures) {
        $("#lost").hidden = true;
        say("The worker answers again.");
        document.body.dispatchEvent(new CustomEvent("console:changed"));
      }
      clearTimeout(state.going);
      state.failures = 0; state.going = null; state.staying = false;
    } catch {
      if (!state.failures) state.since = Date.now();
      state.failures += 1;
      await lost();
    }
  }

  function start() {
    state.workers = readWorkers();
    const host = $("[data-host]");
    if (host) host.textContent = location.host;
    $("#theme").addEventListener("change", (event) => {
      const theme = event.target.value;
      document.documentElement.dataset.theme = theme;
      document.cookie = `connectrt_theme=${theme}; path=${base()}; max-age=31536000; samesite=strict`;
      document.dispatchEvent(new CustomEvent("console:theme"));
    });
    dialog().addEventListener("close", () => dialog().replaceChildren());
    times();
    setInterval(times, 5000);
    setInterval(alive, 3000);
    document.addEventListener("input", (event) => {
      const form = event.target.closest("form[data-guard]");
      if (form) form.dataset.unsaved = "1";
    });
    window.addEventListener("beforeunload", (event) => { if (unsaved()) event.preventDefault(); });
  }
  document.addEventListener("DOMContentLoaded", start);

  return { live, post, fragment, rows, ordered, say, message, times, closeDialog, token, base };
})();
