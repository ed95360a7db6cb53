"use strict";
// Charts under each other on one time axis, with the phases behind them. A page that includes this gives each chart its series.
const stallbenchCharts = (function () {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue("--" + name).trim();
  const LEFT = 64;
  const RIGHT = 20;
  const NAMES = 16;
  const DECADES = [0.01, 0.1, 1, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7];

  const short = (value) => {
    if (value === null || value === undefined) return "no data";
    const size = Math.abs(value);
    if (size >= 1e6) return (value / 1e6).toFixed(size >= 1e7 ? 0 : 1) + "M";
    if (size >= 1e4) return (value / 1e3).toFixed(size >= 1e5 ? 0 : 1) + "k";
    return size >= 100 ? value.toFixed(0) : size >= 1 ? String(+value.toFixed(1)) : String(+value.toPrecision(2));
  };

  // As many decimals as the distance of two ticks needs: neighbours never have the same label.
  const tick = (value, step) => {
    const [unit, suffix] = Math.abs(value) >= 1e6 ? [1e6, "M"] : Math.abs(value) >= 1e4 ? [1e3, "k"] : [1, ""];
    const decimals = (String(+(step / unit).toPrecision(3)).split(".")[1] || "").length;
    return value === 0 ? "0" : (value / unit).toFixed(decimals) + suffix;
  };

  // The last phase may go on after the last value, if nothing could be read any more.
  const endOf = (data) => Math.max(data.t_s.length ? data.t_s[data.t_s.length - 1] + 1 : 1, ...data.phases.map((phase) => phase.to_s || 0));

  const places = (values) => values.flatMap((value, at) => (value === null || value === undefined ? [] : [at]));
  // How far apart two values may be that a line connects: neighbours, or what is usual in a curve of which not every second has a value.
  const reachOf = (values) => {
    const at = places(values);
    const steps = at.slice(1).map((place, n) => place - at[n]).sort((a, b) => a - b);
    const usual = steps.length ? steps[Math.floor(steps.length / 2)] : 1;
    return usual > 1 ? 2.5 * usual : 1;
  };
  const gapsOf = (u, series) => {
    const at = places(u.data[series]), reach = reachOf(u.data[series]);
    const along = (place) => u.valToPos(u.data[0][place], "x", true);
    return at.slice(1).flatMap((place, n) => (place - at[n] > reach ? [[along(at[n]), along(place)]] : []));
  };
  // No line leads to a value that has no other near it, such as the only cycle of a soak: it needs a point to be seen.
  const alone = (u, series) => {
    const at = places(u.data[series]), reach = reachOf(u.data[series]);
    return at.filter((place, n) => !(place - at[n - 1] <= reach) && !(at[n + 1] - place <= reach));
  };

  // Phases and what held the database back, drawn behind the curves. Names are above, where no grid line or curve crosses them.
  const drawBands = (u, named, data, end) => {
    const { ctx, bbox } = u;
    const ratio = devicePixelRatio || 1;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, 0, bbox.width, bbox.top + bbox.height);
    ctx.clip();
    data.phases.forEach((phase, index) => {
      const from = u.valToPos(phase.from_s, "x", true);
      const to = u.valToPos(phase.to_s === null ? end : phase.to_s, "x", true);
      if (index % 2 === 0) {
        ctx.fillStyle = colour("band");
        ctx.fillRect(from, bbox.top, to - from, bbox.height);
      }
      if (named) {
        ctx.fillStyle = colour("muted");
        ctx.font = 11 * ratio + "px system-ui, sans-serif";
        ctx.textBaseline = "bottom";
        if (ctx.measureText(phase.name).width + 6 * ratio < to - from) ctx.fillText(phase.name, from + 4 * ratio, bbox.top - 2 * ratio);
      }
    });
    ctx.fillStyle = colour("held");
    data.bands.forEach((band) => {
      const from = u.valToPos(band.from_s, "x", true);
      const to = u.valToPos(band.to_s === null ? end : band.to_s, "x", true);
      ctx.fillRect(from, bbox.top, to - from, bbox.height);
    });
    ctx.restore();
  };

  // What changes little would be a straight line on an axis that begins at 0.
  const closeRange = (low, high) => {
    const margin = Math.max((high - low) * 0.1, Math.abs(high) * 0.02, 1e-9);
    return [Math.max(0, low - margin), high + margin];
  };

  // chart: title, log, close (the axis begins near the lowest value), series; a series: label, hue (the name of a colour), dash, and values, one for each of data.t_s.
  const draw = (box, charts, data) => {
    const plots = [];
    const end = endOf(data);
    const sync = uPlot.sync("run");
    const widthOf = () => Math.max(280, box.clientWidth);
    charts.forEach((chart, index) => {
      const figure = document.createElement("figure");
      figure.className = "chart";
      const title = document.createElement("h3");
      title.textContent = chart.title;
      const keys = chart.series.map(({ label, hue, dash }) => {
        const key = document.createElement("span");
        key.className = "key";
        key.innerHTML = '<i style="' + (dash ? "border-top:.22em dotted " : "background:") + colour(hue) + '"></i>';
        key.append(document.createTextNode(label + " "), document.createElement("b"));
        title.append(key);
        return key.lastChild;
      });
      figure.append(title);
      box.append(figure);
      const columns = chart.series.map(({ values }) => values);
      if (!columns.some((column) => column.some((value) => value !== null))) {
        figure.append("no data");
        return;
      }
      const named = index === 0;
      const last = index === charts.length - 1;
      const axis = { stroke: colour("muted"), grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line"), width: 1 }, font: "11px system-ui, sans-serif" };
      const show = (u) => keys.forEach((key, n) => {
        const at = u.cursor.idx;
        key.textContent = at === null || at === undefined ? "" : short(u.data[n + 1][at]);
      });
      plots.push(new uPlot({
        width: widthOf(),
        height: (chart.height || 118) + (named ? NAMES - 6 : 0) + (last ? 32 : 0),
        padding: [named ? NAMES : 6, RIGHT, 0, 0],
        cursor: { sync: { key: sync.key }, points: { size: 6 }, drag: { x: true, y: false } },
        scales: { x: { time: false, range: () => [0, end] }, y: chart.log ? { distr: 3 } : { range: (u, low, high) => (chart.close ? closeRange(low, high) : [0, high > 0 ? high * 1.08 : 1]) } },
        axes: [
          { ...axis, size: last ? 34 : 10, values: (u, ticks) => ticks.map((t) => (last ? t + " " + (data.unit || "s") : "")) },
          {
            ...axis,
            size: LEFT,
            values: (u, ticks, axis, space, step) => ticks.map((t) => (t === null ? "" : chart.log ? short(t) : tick(t, step))),
            ...(chart.log && { splits: (u, axis, low, high) => DECADES.filter((t) => t >= low && t <= high) }),
          },
        ],
        series: [{}, ...chart.series.map(({ label, hue, dash }) => ({ label, stroke: colour(hue), dash, width: 1.6, points: { show: true, size: 5, fill: colour(hue), filter: alone }, spanGaps: false, gaps: gapsOf }))],
        hooks: { drawClear: [(u) => drawBands(u, named, data, end)], setCursor: [show] },
      }, [data.t_s, ...columns], figure));
    });
    addEventListener("resize", () => plots.forEach((plot) => plot.setSize({ width: widthOf(), height: plot.height })));
  };

  return { LEFT, RIGHT, draw, endOf };
})();
