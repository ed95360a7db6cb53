"use strict";
(function () {
  const data = JSON.parse(document.getElementById("data").textContent);
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue("--" + name).trim();
  const end = data.t_s.length ? data.t_s[data.t_s.length - 1] + 1 : 1;
  const LEFT = 64;
  const DECADES = [0.01, 0.1, 1, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7];

  const short = (value) => {
    if (value === null || value === undefined) return "no data";
    const size = Math.abs(value);
    if (size >= 1e6) return (value / 1e6).toFixed(size >= 1e7 ? 0 : 1) + "M";
    if (size >= 1e4) return (value / 1e3).toFixed(size >= 1e5 ? 0 : 1) + "k";
    return size >= 100 ? value.toFixed(0) : size >= 1 ? String(+value.toFixed(1)) : String(+value.toPrecision(2));
  };

  const CHARTS = [
    { title: "Oldest transaction, s", series: [["oldest_transaction_s", "age", "violet"]] },
    { title: "Queue depth, jobs", series: [["depth", "ready and not claimed", "orange"]] },
    { title: "Claim time (lock time), ms", series: [["claim_ms_p95", "p95", "red"], ["claim_ms_p50", "p50", "blue"]] },
    { title: "Dead tuples", series: [["dead_tuples", "in the queue's tables", "violet"]] },
    { title: "History list length", series: [["history_list_length", "undo that purge may not remove", "violet"]] },
    { title: "Rolled back to break a deadlock, calls/s", series: [["deadlocks_in_complete", "deletes", "red"], ["deadlocks_in_claim", "claims", "blue"]] },
    { title: "Executed again, jobs/s", series: [["executions_again", "done before", "orange"]] },
    { title: "Throughput, jobs/s", series: [["enqueued", "enqueued", "blue"], ["completed", "completed", "green"]] },
    { title: "Latency from the intended time, ms", series: [["latency_ms_p95", "p95", "red"], ["latency_ms_p50", "p50", "blue"]], log: true },
  ];

  const OPTIONAL = new Set(["dead_tuples", "history_list_length", "deadlocks_in_complete", "executions_again"]);

  // Phases and what held the database back, drawn behind the curves.
  const drawBands = (u, named) => {
    const { ctx, bbox } = u;
    const ratio = devicePixelRatio || 1;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    data.phases.forEach((phase, index) => {
      const from = u.valToPos(phase.from_s, "x", true);
      const to = u.valToPos(phase.to_s === null ? end : phase.to_s, "x", true);
      if (index % 2 === 0) {
        ctx.fillStyle = colour("band");
        ctx.fillRect(from, bbox.top, to - from, bbox.height);
      }
      if (named) {
        ctx.fillStyle = colour("quiet");
        ctx.font = 11 * ratio + "px system-ui, sans-serif";
        ctx.textBaseline = "top";
        if (ctx.measureText(phase.name).width + 6 * ratio < to - from) ctx.fillText(phase.name, from + 4 * ratio, bbox.top + 3 * ratio);
      }
    });
    ctx.fillStyle = colour("held");
    data.faults.forEach((fault) => {
      const from = u.valToPos(fault.from_s, "x", true);
      const to = u.valToPos(fault.to_s === null ? end : fault.to_s, "x", true);
      ctx.fillRect(from, bbox.top, to - from, bbox.height);
    });
    ctx.restore();
  };

  const box = document.getElementById("charts");
  const plots = [];
  const sync = uPlot.sync("run");
  const widthOf = () => Math.max(280, box.clientWidth);

  // What an engine does not have, or what never happened, takes no room.
  const isWorthShowing = (chart) => chart.series.some(([name]) => (data.columns[name] || []).some((value) => value !== null))
    && (!OPTIONAL.has(chart.series[0][0]) || chart.series.some(([name]) => data.columns[name].some((value) => value > 0)));
  const shown = CHARTS.filter(isWorthShowing);
  shown.forEach((chart, index) => {
    const figure = document.createElement("figure");
    figure.className = "chart";
    const title = document.createElement("h3");
    title.textContent = chart.title;
    const keys = chart.series.map(([, label, hue]) => {
      const key = document.createElement("span");
      key.className = "key";
      key.innerHTML = '<i style="background:' + colour(hue) + '"></i>';
      key.append(document.createTextNode(label + " "), document.createElement("b"));
      title.append(key);
      return key.lastChild;
    });
    figure.append(title);
    box.append(figure);
    const columns = chart.series.map(([name]) => data.columns[name]);
    const last = index === shown.length - 1;
    const axis = { stroke: colour("quiet"), grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line"), width: 1 }, font: "11px system-ui, sans-serif" };
    const show = (u) => keys.forEach((key, n) => {
      const at = u.cursor.idx;
      key.textContent = at === null || at === undefined ? "" : short(u.data[n + 1][at]);
    });
    plots.push(new uPlot({
      width: widthOf(),
      height: last ? 150 : 118,
      padding: [6, 8, 0, 0],
      cursor: { sync: { key: sync.key }, points: { size: 6 }, drag: { x: true, y: false } },
      scales: { x: { time: false, range: () => [0, end] }, y: chart.log ? { distr: 3 } : { range: (u, low, high) => [0, Math.max(high * 1.08, 1e-9)] } },
      axes: [
        { ...axis, size: last ? 34 : 10, values: (u, ticks) => ticks.map((t) => (last ? t + " s" : "")) },
        {
          ...axis,
          size: LEFT,
          values: (u, ticks) => ticks.map((t) => (t === null ? "" : short(t))),
          ...(chart.log && { splits: (u, axis, low, high) => DECADES.filter((t) => t >= low && t <= high) }),
        },
      ],
      series: [{}, ...chart.series.map(([, label, hue]) => ({ label, stroke: colour(hue), width: 1.6, points: { show: false }, spanGaps: false }))],
      hooks: { drawClear: [(u) => drawBands(u, index === 0)], setCursor: [show] },
    }, [data.t_s, ...columns], figure));
  });

  // Who held the horizon, on the same time axis.
  if (data.holders.length) {
    const title = document.createElement("h3");
    title.textContent = "Holders of the horizon";
    const bars = document.createElement("div");
    bars.className = "bars";
    bars.style.marginLeft = LEFT + "px";
    bars.style.marginRight = "8px";
    data.holders.forEach((holder) => {
      const row = document.createElement("div");
      row.className = "row";
      const bar = document.createElement("div");
      bar.className = "bar";
      const from = Math.max(0, holder.from_s / end), to = Math.min(1, holder.to_s / end);
      bar.style.left = 100 * from + "%";
      bar.style.width = 100 * Math.max(0, to - from) + "%";
      bar.title = holder.about;
      const name = document.createElement("span");
      name.className = "name";
      name.textContent = holder.name + " on " + holder.server;
      if (to < 0.7) name.style.left = "calc(" + 100 * to + "% + .5rem)";
      else if (from > 0.3) name.style.right = "calc(" + 100 * (1 - from) + "% + .5rem)";
      else { name.style.left = "calc(" + 100 * from + "% + .5rem)"; name.style.color = "#fff"; name.style.zIndex = 1; }
      row.append(bar, name);
      bars.append(row);
    });
    box.append(title, bars);
  }

  const addBar = (row, share) => {
    const bar = document.createElement("span");
    bar.className = "share";
    bar.style.width = Math.max(1, Math.round(160 * share)) + "px";
    row.insertCell().append(bar);
  };
  const order = document.getElementById("order");
  if (order && data.order.length) {
    const total = data.order.reduce((sum, [, claims]) => sum + claims, 0);
    const groups = [["0", 0, 0], ["1", 1, 1], ["2 to 5", 2, 5], ["6 to 20", 6, 20], ["21 to 100", 21, 100], ["over 100", 101, Infinity]];
    const table = document.createElement("table");
    table.className = "numbers";
    groups.forEach(([label, low, high]) => {
      const claims = data.order.filter(([diff]) => diff >= low && diff <= high).reduce((sum, [, n]) => sum + n, 0);
      if (!claims) return;
      const row = table.insertRow();
      const head = document.createElement("th");
      head.textContent = label;
      row.append(head);
      row.insertCell().textContent = claims.toLocaleString("en");
      row.insertCell().textContent = (100 * claims / total).toFixed(claims === total ? 0 : 2) + " %";
      addBar(row, claims / total);
    });
    order.append(table);
  } else if (order) order.textContent = "no claim was recorded";

  const rounds = document.getElementById("rounds");
  if (rounds && data.rounds.length) {
    const total = data.rounds.reduce((sum, [, jobs]) => sum + jobs, 0);
    const table = document.createElement("table");
    table.className = "numbers";
    data.rounds.forEach(([number, jobs]) => {
      const row = table.insertRow();
      const head = document.createElement("th");
      head.textContent = "round " + number;
      row.append(head);
      row.insertCell().textContent = jobs.toLocaleString("en");
      row.insertCell().textContent = (100 * jobs / total).toFixed(2) + " %";
      addBar(row, jobs / total);
    });
    rounds.append(table);
  }

  addEventListener("resize", () => plots.forEach((plot) => plot.setSize({ width: widthOf(), height: plot.height })));
})();
