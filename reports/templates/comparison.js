"use strict";
(function () {
  const data = JSON.parse(document.getElementById("data").textContent);
  const HUES = ["blue", "orange", "green", "violet", "red"];

  // The reference is in the colour of the text; when colours begin again, lines are dashed, then dotted.
  const lineOf = (index) => {
    if (index === 0) return { hue: "ink" };
    const turn = Math.floor((index - 1) / HUES.length);
    return { hue: HUES[(index - 1) % HUES.length], dash: [undefined, [6, 4], [2, 3]][Math.min(turn, 2)] };
  };
  const charts = data.charts.map(({ column, title }) => ({
    title,
    height: 170,
    series: data.variants.map((name, index) => ({ label: name, values: data.columns[column][name], ...lineOf(index) })),
  }));
  stallbenchCharts.draw(document.getElementById("charts"), charts, data);
})();
