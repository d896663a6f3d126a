// The list of connectors: live rows in place, and the selection. A row under the pointer or the keyboard stays where it
// is until one leaves the table; its values change all the same.
"use strict";

(() => {
  const $ = (selector, within = document) => within.querySelector(selector);
  const all = (selector) => [...document.querySelectorAll(selector)];
  let stream = null, abnormal = 0, actedUntil = 0;

  const order = connectrt.ordered(() => $("#rows"), {
    anyway: () => Date.now() < actedUntil, // what was asked for may move things
    moved: () => selection(),
  });

  function overview(news) {
    const body = $("#rows");
    if (!body) { if (news.order?.length) reload(); return; } // there was none
    connectrt.rows(body, news.changed);
    if (news.order) order.want(news.order);
    if (news.summary !== null && !$("#summary").contains(document.activeElement)) $("#summary").replaceChildren(connectrt.fragment(news.summary));
    if (news.abnormal !== abnormal) {
      connectrt.say(`${news.abnormal} ${news.abnormal === 1 ? "connector is" : "connectors are"} failing`);
    }
    abnormal = news.abnormal;
    document.title = document.title.replace(/^(\d+ failing · )?/, news.abnormal ? `${news.abnormal} failing · ` : "");
  }

  function reload() { htmx.ajax("GET", location.href, { target: "#list", select: "#list", swap: "outerHTML" }); }

  function selection() {
    const ticked = all("#rows input[type=checkbox]:checked");
    const everything = $('#selection-form input[name="all"]');
    const bar = $("#selection");
    if (!bar) return;
    if (ticked.length < all("#rows input[type=checkbox]").length) everything.value = "";
    const found = $("#select-matching");
    bar.hidden = !ticked.length;
    $("#selected-count").textContent = everything.value ? found.dataset.count : String(ticked.length);
    if (found) found.hidden = Boolean(everything.value);
    const head = $("#tick-all");
    head.checked = ticked.length > 0 && ticked.length === all("#rows input[type=checkbox]").length;
    head.indeterminate = ticked.length > 0 && !head.checked;
  }

  function tick(value) {
    for (const one of all("#rows input[type=checkbox]")) one.checked = value;
    if (!value) $('#selection-form input[name="all"]').value = "";
    selection();
  }

  document.addEventListener("change", (event) => {
    if (event.target.id === "tick-all") tick(event.target.checked);
    else if (event.target.closest("#rows")) selection();
  });
  document.addEventListener("click", (event) => {
    if (event.target.closest("#clear-selection")) { tick(false); $("#tick-all").focus(); }
    if (event.target.closest("#select-matching")) {
      tick(true);
      $('#selection-form input[name="all"]').value = "1";
      selection();
      connectrt.say(`All ${$("#selected-count").textContent} connectors that match are selected`);
    }
  });
  document.addEventListener("submit", (event) => { if (event.target.id === "selection-form") event.preventDefault(); });
  document.addEventListener("console:changed", () => { actedUntil = Date.now() + 5000; order.settle(); });
  document.addEventListener("console:close", () => tick(false));
  document.addEventListener("htmx:afterSettle", () => stream?.reopen($("#list").dataset.live));
  document.addEventListener("DOMContentLoaded", () => {
    selection();
    abnormal = Number($("#list").dataset.abnormal); // as the page was made: what changed before the first news is news
    stream = connectrt.live($("#list").dataset.live, { overview, problem: (news) => connectrt.message(news.message, "bad") });
  });
})();
