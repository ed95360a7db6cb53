"use strict";
// Draws the charts of a page under each other on one time axis, with the phases behind them. Titles, keys and values are in the page already.
(function () {
  const data = JSON.parse(document.getElementById("data").textContent);
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue("--" + name).trim();
  const LEFT = 66;
  const RIGHT = 14;
  const NAME = 13; // the height of a line of names
  const MOST_LINES_OF_NAMES = 3;
  const FEW_SERIES = 2; // of more, the greatest values would cover each other
  const FONT = "11px system-ui, sans-serif";
  const DASHES = { dashed: [6, 4], dotted: [2, 3] };
  const ruler = document.createElement("canvas").getContext("2d");
  ruler.font = FONT;

  const short = (value) => {
    if (value === null || value === undefined) return "no data";
    const size = Math.abs(value);
    if (size >= 1e6) return (value / 1e6).toFixed(size >= 1e7 ? 0 : 1) + "M";
    if (size >= 1e4) return (value / 1e3).toFixed(size >= 1e5 ? 0 : 1) + "k";
    return size >= 100 ? value.toFixed(0) : size >= 1 ? String(+value.toFixed(1)) : String(+value.toPrecision(2));
  };
  const withUnit = (value, unit) => {
    if (unit === "ms" && Math.abs(value) >= 1000) return short(value / 1000) + " s";
    return unit === "ms" || unit === "s" || unit === "%" ? short(value) + " " + unit : short(value);
  };

  // As many decimals as the distance of two ticks needs: neighbours never have the same label.
  const tick = (value, step) => {
    const [unit, suffix] = Math.abs(value) >= 1e6 ? [1e6, "M"] : Math.abs(value) >= 1e4 ? [1e3, "k"] : [1, ""];
    const decimals = (String(+(step / unit).toPrecision(3)).split(".")[1] || "").length;
    return value === 0 ? "0" : (value / unit).toFixed(decimals) + suffix;
  };
  // A logarithmic axis has a label at each power of ten, and between them if these are too few to read a value from.
  const logarithmicTicks = (low, high) => {
    const decades = Math.log10(high / low);
    const steps = decades > 2.5 ? [1] : decades > 1.2 ? [1, 3] : [1, 2, 5];
    const ticks = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++)
      steps.forEach((step) => ticks.push(+(step * 10 ** power).toPrecision(3)));
    return ticks.filter((value) => value >= low * 0.999 && value <= high * 1.001);
  };

  // The last phase may go on after the last value, if nothing could be read any more.
  const end = Math.max(data.t_s.length ? data.t_s[data.t_s.length - 1] + 1 : 1, ...data.phases.map((phase) => phase.to_s || 0));

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

  // Where the name of each phase stands above a chart: on the first line on which nothing is in its way.
  const placeNames = (width) => {
    const plot = width - LEFT - RIGHT;
    const taken = Array(MOST_LINES_OF_NAMES).fill(-Infinity);
    const names = data.phases.flatMap((phase) => {
      const size = ruler.measureText(phase.name).width;
      const from = Math.min((phase.from_s / end) * plot + 4, Math.max(0, plot - size));
      const line = taken.findIndex((until) => until < from);
      if (line < 0) return [];
      taken[line] = from + size + 6;
      return [{ name: phase.name, from, line }];
    });
    return { names, lines: 1 + Math.max(0, ...names.map(({ line }) => line)) };
  };

  // Phases and what disturbed the queue, drawn behind the curves. Names are above, where no grid line or curve crosses them.
  const drawBands = (u, placed) => {
    const { ctx, bbox } = u;
    const ratio = devicePixelRatio || 1;
    const along = (t_s) => u.valToPos(t_s === null ? end : t_s, "x", true);
    const bottom = bbox.top + bbox.height;
    const line = (x, top) => {
      ctx.beginPath();
      ctx.moveTo(x, top);
      ctx.lineTo(x, bottom);
      ctx.stroke();
    };
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left - ratio, 0, bbox.width + 2 * ratio, bottom);
    ctx.clip();
    ctx.lineWidth = ratio;
    data.phases.forEach((phase, index) => {
      const from = along(phase.from_s);
      if (index % 2 === 0) {
        ctx.fillStyle = colour("band");
        ctx.fillRect(from, bbox.top, along(phase.to_s) - from, bbox.height);
      }
      ctx.strokeStyle = colour("edge");
      line(from, bbox.top - 3 * ratio);
    });
    data.bands.forEach((band) => {
      if (band.from_s === null) return;
      const from = along(band.from_s);
      const size = Math.max(2 * ratio, along(band.to_s) - from);
      ctx.fillStyle = colour("held");
      ctx.fillRect(from, bbox.top, size, bbox.height);
      ctx.fillStyle = ctx.strokeStyle = colour("red");
      ctx.fillRect(from, bbox.top, size, 4 * ratio);
      line(from, bbox.top);
      line(from + size, bbox.top);
    });
    ctx.fillStyle = colour("muted");
    ctx.font = 11 * ratio + "px system-ui, sans-serif";
    ctx.textBaseline = "bottom";
    ctx.textAlign = "left";
    placed.names.forEach(({ name, from, line: at }) => {
      ctx.fillText(name, bbox.left + from * ratio, bbox.top - (at * NAME + 3) * ratio);
    });
    ctx.restore();
  };

  // The greatest value of each curve, beside it: it can be read without a pointer.
  const drawGreatest = (u, chart) => {
    if (chart.series.length > FEW_SERIES) return;
    const { ctx, bbox } = u;
    const ratio = devicePixelRatio || 1;
    ctx.save();
    ctx.font = "600 " + 11 * ratio + "px system-ui, sans-serif";
    ctx.textBaseline = "middle";
    ctx.textAlign = "left";
    let above = -Infinity;
    chart.series.forEach(({ values, hue }) => {
      const at = values.reduce((best, value, place) => (value !== null && (best < 0 || value > values[best]) ? place : best), -1);
      if (at < 0) return;
      const text = withUnit(values[at], chart.unit);
      const size = ctx.measureText(text).width;
      const x = u.valToPos(data.t_s[at], "x", true);
      const y = Math.max(bbox.top + 12 * ratio, u.valToPos(values[at], "y", true));
      if (Math.abs(y - above) < 13 * ratio) return;
      above = y;
      const left = x + 8 * ratio + size < bbox.left + bbox.width ? x + 7 * ratio : x - 7 * ratio - size;
      ctx.fillStyle = colour("background");
      ctx.globalAlpha = 0.5;
      ctx.fillRect(left - 2 * ratio, y - 7 * ratio, size + 4 * ratio, 14 * ratio);
      ctx.globalAlpha = 1;
      ctx.fillStyle = colour(hue);
      ctx.beginPath();
      ctx.arc(x, u.valToPos(values[at], "y", true), 3 * ratio, 0, 2 * Math.PI);
      ctx.fill();
      ctx.fillText(text, left, y);
    });
    ctx.restore();
  };

  // What changes little would be a straight line on an axis that begins at 0.
  const closeRange = (low, high) => {
    const margin = Math.max((high - low) * 0.1, Math.abs(high) * 0.02, 1e-9);
    return [Math.max(0, low - margin), high + margin];
  };
  const rangeOf = (chart) => (u, low, high) => {
    if (low === null) return [0, 1];
    if (chart.log) return [low / 1.3, Math.max(high * 1.5, low * 10)];
    return chart.close ? closeRange(low, high) : [0, high > 0 ? high * 1.15 : 1];
  };

  const charts = [...document.querySelectorAll("figure.chart")].map((figure, index) => {
    const chart = data.charts[index];
    const plot = figure.querySelector(".plot");
    if (!chart.series.some(({ values }) => values.some((value) => value !== null))) {
      plot.textContent = "no data";
      return null;
    }
    const keys = chart.series.map((_, n) => {
      const at = figure.querySelector('[data-series="' + n + '"]');
      return at && at.appendChild(document.createElement("output"));
    });
    const widthOf = () => Math.max(260, plot.clientWidth);
    let placed = placeNames(widthOf());
    const axis = { stroke: () => colour("muted"), grid: { stroke: () => colour("line"), width: 1 }, ticks: { stroke: () => colour("line"), width: 1 }, font: FONT };
    const heightOf = () => (chart.height || 120) + placed.lines * NAME + 24;
    const u = new uPlot({
      width: widthOf(),
      height: heightOf(),
      padding: [() => placed.lines * NAME + 5, RIGHT, 0, 0],
      cursor: { sync: { key: "run" }, points: { size: 6 }, drag: { x: true, y: false } },
      legend: { show: false },
      scales: { x: { time: false, range: () => [0, end] }, y: { distr: chart.log ? 3 : 1, range: rangeOf(chart) } },
      axes: [
        { ...axis, size: 24, gap: 2, values: (u, ticks) => ticks.map((t) => t + " " + (data.unit || "s")) },
        {
          ...axis,
          size: LEFT,
          values: (u, ticks, axis, space, step) => ticks.map((t) => (t === null ? "" : chart.log ? withUnit(t, chart.unit) : tick(t, step))),
          ...(chart.log && { splits: (u, axis, low, high) => logarithmicTicks(low, high), filter: (u, ticks) => ticks }),
        },
      ],
      series: [{}, ...chart.series.map(({ label, hue, dash }) => ({ label, stroke: () => colour(hue), dash: DASHES[dash], width: 1.6, points: { show: true, size: 5, fill: () => colour(hue), filter: alone }, spanGaps: false, gaps: gapsOf }))],
      hooks: {
        drawClear: [(u) => drawBands(u, placed)],
        draw: [(u) => drawGreatest(u, chart)],
        setCursor: [(u) => keys.forEach((key, n) => {
          const at = u.cursor.idx;
          if (key) key.textContent = at === null || at === undefined ? "" : withUnit(u.data[n + 1][at], chart.unit);
        })],
      },
    }, [data.t_s, ...chart.series.map(({ values }) => values)], plot);
    const resize = () => {
      placed = placeNames(widthOf());
      u.setSize({ width: widthOf(), height: heightOf() });
    };
    return { u, resize };
  }).filter((chart) => chart !== null);

  addEventListener("resize", () => charts.forEach(({ resize }) => resize()));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => charts.forEach(({ u }) => u.redraw()));
})();
