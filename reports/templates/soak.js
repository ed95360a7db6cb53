"use strict";
(function () {
  const data = JSON.parse(document.getElementById("data").textContent);
  const HUES = ["blue", "orange", "green", "violet", "red"];
  const DASHES = [undefined, [6, 4], [2, 3]];
  const lineOf = (index) => ({ hue: HUES[index % HUES.length], dash: DASHES[Math.min(Math.floor(index / HUES.length), 2)] });
  const charts = data.charts.map((chart) => ({
    title: chart.title,
    height: 170,
    close: true,
    series: chart.series.map((series, index) => ({ ...series, ...lineOf(index) })),
  }));
  stallbenchCharts.draw(document.getElementById("charts"), charts, data);
})();
