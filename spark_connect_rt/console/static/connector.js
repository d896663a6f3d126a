// A connector's first tab: facts, tasks and the course of the last hour, live.
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  const HOUR_S = 3600;
  const $ = (selector) => document.querySelector(selector);
  const course = { at_s: [], records_per_second: [], lag: [], errors: [] };
  const charts = new Map();
  let { state } = $("#live").dataset; // as the page was made: what changed before the first news is news

  const figures = new Intl.NumberFormat("en", { maximumFractionDigits: 2 });
  const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
  const minute = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
  const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
  const colour = (name) => {
    const probe = document.createElement("span"); // light-dark() is resolved where it is used
    probe.style.color = `var(${name})`;
    document.body.append(probe);
    const found = getComputedStyle(probe).color;
    probe.remove();
    return found;
  };

  // At least a minute: uPlot draws a day around a single point.
  function span(chart, least, most) {
    if (chart.data[0].length === 1) most = chart.data[0][0];
    return least === null ? [null, null] : [Math.min(least, most - 60), most];
  }

  function draw() {
    const axis = { stroke: colour("--faint"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
    const tones = { records_per_second: "--accent", lag: "--warn", errors: "--bad" };
    for (const place of document.querySelectorAll("[data-chart]")) {
      const key = place.dataset.chart;
      charts.get(key)?.destroy();
      charts.set(key, new uPlot({
        width: place.clientWidth || 300, height: 150,
        legend: { show: false }, cursor: { y: false },
        padding: [null, 28, null, null], // half of the last tick's label
        scales: { x: { range: span }, y: { range: (_, least, most) => [0, Math.max(most ?? 0, 1) * 1.08] } },
        axes: [{ ...axis, space: 70, size: 30, values: (_, all, _axis, _space, step) => all.map((one) => (step < 60 ? clock : minute).format(one * 1000)) }, { ...axis, size: 48, values: (_, all) => all.map((one) => short.format(one)) }],
        series: [{}, { stroke: colour(tones[key]), width: 1.75, fill: undefined, points: { show: false }, spanGaps: false }],
      }, [course.at_s, course[key]], place));
    }
  }

  function extend(news) {
    if (!news.at_s.length) return;
    for (const key of Object.keys(course)) course[key].push(...news[key]);
    const from = course.at_s.findIndex((at) => at >= course.at_s[course.at_s.length - 1] - HOUR_S);
    for (const key of Object.keys(course)) course[key].splice(0, from);
    for (const [key, chart] of charts) {
      chart.setData([course.at_s, course[key]]);
      const newest = course[key][course[key].length - 1];
      $(`[data-newest="${key}"]`).textContent = newest === null ? "–" : figures.format(newest);
    }
  }

  const order = connectrt.ordered(() => $("#tasks"), { moved: () => { $("#no-tasks").hidden = $("#tasks").children.length > 0; } });
  let first = true;
  function connector(news) {
    if (news.topics !== null) $("#topics").replaceChildren(connectrt.fragment(news.topics));
    if (news.tables !== null) $("#tables").replaceChildren(connectrt.fragment(news.tables));
    if (news.facts !== null) $("#facts").replaceChildren(connectrt.fragment(news.facts));
    connectrt.times($("#facts"));
    connectrt.rows($("#tasks"), news.tasks);
    if (news.order) order.want(news.order);
    if (first || !course.at_s.length) draw();
    first = false;
    const last = course.at_s[course.at_s.length - 1] || 0; // a stream opened again sends all of it again
    const keep = news.course.at_s.map((at) => at > last);
    extend(Object.fromEntries(Object.entries(news.course).map(([key, values]) => [key, values.filter((_, n) => keep[n])])));
    if (state !== news.state) connectrt.say(`The connector is ${news.state}`);
    state = news.state;
  }

  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    if (window.innerWidth === width) return;
    width = window.innerWidth;
    for (const [key, chart] of charts) chart.setSize({ width: $(`[data-chart="${key}"]`).clientWidth, height: 150 });
  });
  document.addEventListener("console:theme", draw);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  draw();
  connectrt.live($("#live").dataset.live, { connector, problem: (news) => connectrt.message(news.message, "bad") });
});
