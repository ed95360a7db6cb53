"use strict";
(function () {
  const data = JSON.parse(document.getElementById("data").textContent);
  const box = document.getElementById("charts");
  const { LEFT, RIGHT, draw, endOf } = stallbenchCharts;
  const end = endOf(data);

  const withValues = ({ column, label, hue }) => ({ label, hue, values: data.columns[column] });
  draw(box, data.charts.map((chart) => ({ ...chart, series: chart.series.map(withValues) })), data);

  // Who held the horizon, on the same time axis.
  if (data.holders.length) {
    const title = document.createElement("h3");
    title.textContent = "Holders of the horizon";
    const bars = document.createElement("div");
    bars.className = "bars";
    bars.style.marginLeft = LEFT + "px";
    bars.style.marginRight = RIGHT + "px";
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
  const listGroups = (box, groups) => {
    const total = groups.reduce((sum, [, count]) => sum + count, 0);
    const table = document.createElement("table");
    table.className = "numbers";
    groups.forEach(([label, count]) => {
      const row = table.insertRow();
      const head = document.createElement("th");
      head.textContent = label;
      row.append(head);
      row.insertCell().textContent = count.toLocaleString("en");
      row.insertCell().textContent = (100 * count / total).toFixed(count === total ? 0 : 2) + " %";
      addBar(row, count / total);
    });
    box.append(table);
  };
  const order = document.getElementById("order");
  if (order && data.order.length) listGroups(order, data.order);
  else if (order) order.textContent = "no claim was recorded";
  const rounds = document.getElementById("rounds");
  if (rounds && data.rounds.length) listGroups(rounds, data.rounds);
})();
