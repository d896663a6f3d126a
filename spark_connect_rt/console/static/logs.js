// Log lines that follow, at the foot of the list, as long as one looks there.
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  const MOST = 2000;
  const log = document.getElementById("log");
  for (const one of document.querySelectorAll("[data-submits]")) one.addEventListener("change", () => one.form.requestSubmit());
  if (!log) return;
  const follow = document.getElementById("follow");
  log.scrollTop = log.scrollHeight;
  const seen = new Set([...log.children].map((line) => line.textContent));

  function lines(news) {
    const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
    for (const html of news) {
      const line = connectrt.fragment(html).firstElementChild;
      if (seen.has(line.textContent)) continue; // what the page showed already
      log.append(line);
    }
    document.getElementById("log-none").hidden = log.children.length > 0;
    while (log.children.length > MOST) log.firstElementChild.remove();
    if (atEnd) log.scrollTop = log.scrollHeight;
  }
  let stream = null;
  function start() { stream = connectrt.live(log.dataset.live, { lines, problem: (news) => connectrt.message(`New lines cannot be read: ${news.message}`, "bad") }); }
  follow.addEventListener("change", () => { if (follow.checked) start(); else stream?.close(); });
  start();
});
