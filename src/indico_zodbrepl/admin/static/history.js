// Draws the measurements of the page's period with uPlot, and refreshes them.
"use strict";

import {full, inUtc, wall} from "./times.js";

(() => {
  const HEIGHT = 190;
  const PATIENCE = 10000;
  const all = document.getElementById("charts");
  const moment = document.getElementById("moment");
  const sync = uPlot.sync("history");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const MARKS = {critical: "--bad", warning: "--odd", notice: "--note", good: "--good",
                 "": "--unclear"};
  let shown = null;
  let tag = "";
  let drawn = [];

  const color = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  // As the filter "figure" of the templates.
  const digits = value => Math.abs(value) >= 100 ? value.toFixed(0).replace(/\B(?=(\d{3})+$)/g, ",")
    : String(Number(value.toPrecision(3)));

  function figure(value, unit) {
    if (unit === "seconds") {
      return value >= 0.0001 && value < 1 ? `${digits(1000 * value)} ms` : `${digits(value < 1 ? 0 : value)} s`;
    }
    if (unit !== "bytes") return `${digits(value)}/${unit === "per-second" ? "s" : "min"}`;
    let at = 0;
    for (; value >= 1024 && at < 4; at += 1) value /= 1024;
    return at === 0 ? `${Math.round(value)} B`
      : `${value.toFixed(1)} ${["KiB", "MiB", "GiB", "TiB"][at - 1]}`;
  }

  // Marks of an axis of bytes are multiples of powers of two, and differ in their decimals.
  const POWERS = Array.from({length: 50}, (_, at) => 2 ** at);

  function bytes(values) {
    const text = (value, decimals) => {
      let at = 0;
      for (; value >= 1024 && at < 4; at += 1) value /= 1024;
      return `${value.toFixed(decimals)} ${["B", "KiB", "MiB", "GiB", "TiB"][at]}`;
    };
    for (let decimals = 0; decimals < 4; decimals += 1) {
      const found = values.map(value => text(value, decimals));
      if (new Set(found).size === found.length) return found;
    }
    return values.map(value => text(value, 4));
  }

  const rowsOf = part => [...part.querySelectorAll("tr[data-kind]")];
  const seriesOf = row => shown.series.find(
    each => each.kind === row.dataset.kind && each.subject === row.dataset.subject);

  function dataOf(part) {
    const times = Array.from({length: shown.slots}, (_, at) => shown.begins + at * shown.step);
    const nothing = new Array(shown.slots).fill(null);
    return [times, ...rowsOf(part).map(row => seriesOf(row)?.values ?? nothing)];
  }

  function drawMarks(plot) {
    const {ctx, bbox} = plot;
    const [begins, ends] = [plot.scales.x.min, plot.scales.x.max];
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    for (const mark of shown.marks) {
      const left = plot.valToPos(Math.max(mark.at, begins), "x", true);
      ctx.strokeStyle = ctx.fillStyle = color(MARKS[mark.weight] ?? MARKS[""]);
      if (mark.operation !== null) {
        const right = plot.valToPos(Math.min(mark.until ?? ends, ends), "x", true);
        ctx.globalAlpha = 0.18;
        ctx.fillRect(left, bbox.top, Math.max(right - left, 2 * devicePixelRatio), bbox.height);
      }
      if (mark.at < begins) continue;
      ctx.globalAlpha = 0.8;
      ctx.lineWidth = devicePixelRatio;
      ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
      ctx.beginPath();
      ctx.moveTo(left, bbox.top);
      ctx.lineTo(left, bbox.top + bbox.height);
      ctx.stroke();
    }
    ctx.restore();
  }

  function point(plot) {
    const at = plot.cursor.idx;
    const none = at === null || at === undefined;
    const part = plot.root.closest(".chart");
    rowsOf(part).forEach((row, number) => {
      const cell = row.cells[4];
      const value = none ? seriesOf(row)?.last : plot.data[number + 1][at];
      cell.classList.toggle("pointed", !none);
      cell.textContent = value === null || value === undefined ? "–"
        : figure(value, part.dataset.unit);
    });
    tell(none ? "" : full(new Date(1000 * plot.data[0][at])));
  }

  function tell(text, gone = false) {
    moment.hidden = false;
    moment.classList.toggle("gone", gone);
    moment.textContent = text || moment.dataset.empty;
  }

  function draw() {
    drawn.forEach(plot => plot.destroy());
    const [ink, grid] = [color("--quiet"), color("--line")];
    const axis = {stroke: ink, grid: {stroke: grid, width: 1}, ticks: {stroke: grid, width: 1},
                  font: `12px ${getComputedStyle(document.body).fontFamily}`};
    drawn = [...all.querySelectorAll(".chart")].map(part => {
      const box = part.querySelector(".graph");
      const unit = part.dataset.unit;
      box.classList.add("drawn");
      return new uPlot({
        width: box.clientWidth,
        height: HEIGHT,
        tzDate: seconds => inUtc() ? uPlot.tzDate(new Date(1000 * seconds), "Etc/UTC")
          : new Date(1000 * seconds),
        legend: {show: false},
        cursor: {sync: {key: "history"}, y: false, drag: {x: false, y: false},
                 points: {size: 6}},
        scales: {
          x: {range: () => [shown.begins, shown.begins + shown.slots * shown.step]},
          y: {range: (_plot, least, most) => rangeOf(unit, least, most)},
        },
        axes: [
          {...axis, values: (_plot, at) => at.map(ticked), space: 60},
          unit === "bytes" ? {...axis, size: 84, incrs: POWERS, values: (_plot, at) => bytes(at)}
            : {...axis, size: 74, values: (_plot, at) => at.map(each => figure(each, unit))},
        ],
        series: [{}, ...rowsOf(part).map((_row, number) => ({
          stroke: color(`--line-${number % 8}`), width: 1.5,
          points: {show: (plot, at) => alone(plot, at).length > 0, filter: alone, size: 4},
        }))],
        hooks: {drawAxes: [drawMarks], setCursor: [point]},
      }, dataOf(part), box);
    });
  }

  // From zero, except for sizes, whose changes are small beside them.
  function rangeOf(unit, least, most) {
    if (least === null) return [0, 1];
    if (unit !== "bytes") return [0, most > 0 ? 1.1 * most : 1];
    const room = Math.max(0.1 * (most - least), 0.005 * most, 1);
    return [Math.max(0, least - room), most + room];
  }

  function ticked(seconds) {
    const [date, time] = wall(new Date(1000 * seconds));
    const day = shown.slots * shown.step > 2 * 86400 && time.startsWith("00:00");
    return day ? date.slice(5) : time.slice(0, 5);
  }

  // A slot between two gaps has no line, so it gets a point.
  function alone(plot, number) {
    const values = plot.data[number];
    return values.flatMap((value, at) => value !== null
      && (values[at - 1] ?? null) === null && (values[at + 1] ?? null) === null ? [at] : []);
  }

  function update() {
    for (const part of all.querySelectorAll(".chart")) {
      for (const row of rowsOf(part)) {
        const series = seriesOf(row);
        if (series === undefined) continue;
        [series.least, series.median, series.most, series.last].forEach((value, at) => {
          if (!row.cells[at + 1].classList.contains("pointed")) {
            row.cells[at + 1].textContent = figure(value, part.dataset.unit);
          }
        });
      }
    }
    drawn.forEach(plot => plot.setData(dataOf(plot.root.closest(".chart"))));
  }

  async function refresh() {
    try {
      const answer = await fetch(all.dataset.source, {
        cache: "no-store", redirect: "manual", signal: AbortSignal.timeout(PATIENCE),
        headers: {"X-Refresh": "1", ...(tag ? {"If-None-Match": tag} : {})}});
      if (answer.status === 401) return tell(moment.dataset.ended, true);
      if (answer.status === 304 || answer.status === 429) return;
      if (!answer.ok) throw new Error(`it answered ${answer.status}`);
      const first = shown === null;
      shown = await answer.json();
      tag = answer.headers.get("ETag") ?? "";
      if (first) draw(); else update();
      if (moment.classList.contains("gone") || first) tell("");
    } catch (error) {
      tell(moment.dataset.gone, true);
      tag = "";
    }
  }

  async function loop() {
    if (!document.hidden) await refresh();
    setTimeout(loop, 1000 * Math.min(60, shown === null ? 5 : shown.step));
  }

  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth === width || shown === null) return;
    width = innerWidth;
    drawn.forEach(plot => plot.setSize(
      {width: plot.root.parentElement.clientWidth, height: HEIGHT}));
  });
  dark.addEventListener("change", () => { if (shown !== null) draw(); });
  document.addEventListener("zone", () => { if (shown !== null) draw(); });
  document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
  if (all.querySelector(".chart") !== null) loop();
})();
