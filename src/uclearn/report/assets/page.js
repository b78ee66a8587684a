"use strict";
// Draws the charts where they come into view, in the colours of the style sheet. The scripts behind
// this one choose what is shown (choose.js), look closer (look.js), sort and save tables
// (tables.js), and save figures (pdf.js, save.js).
const page = (() => {
  const root = document.documentElement;
  const charts = [...document.querySelectorAll(".chart")];
  const specs = new Map(); // chart -> what Python wrote, read when it is first needed
  const shown = new Map(); // study -> numbers of the groups that are shown
  const afterDrawing = [];
  const config = { displayModeBar: false, responsive: true, locale: "en", doubleClick: "reset" };

  function spec(chart) {
    if (!specs.has(chart)) specs.set(chart, JSON.parse(chart.querySelector("script").textContent));
    return specs.get(chart);
  }

  // --- colours -------------------------------------------------------------------------------

  const probe = document.body.appendChild(document.createElement("span"));
  probe.hidden = true;
  let palette = new Map();

  function lookUp(name, opacity = 1) {
    const key = `${name}/${opacity}`;
    if (!palette.has(key)) {
      probe.style.color = `color-mix(in srgb, var(--${name}) ${100 * opacity}%, transparent)`;
      if (opacity === 1) probe.style.color = `var(--${name})`;
      palette.set(key, toRgba(getComputedStyle(probe).color));
    }
    return palette.get(key);
  }

  // color-mix answers in the notation color(srgb r g b / a), which Plotly does not read
  function toRgba(color) {
    const parts = /^color\(srgb ([\d.e-]+) ([\d.e-]+) ([\d.e-]+)(?: \/ ([\d.e-]+))?\)$/.exec(color);
    if (!parts) return color;
    const [r, g, b] = parts.slice(1, 4).map((part) => Math.round(255 * part));
    return `rgba(${r}, ${g}, ${b}, ${parts[4] ?? 1})`;
  }

  function coloured(value) {
    if (typeof value === "string") {
      const found = /^@([a-z0-9-]+)(?:\/([\d.]+))?$/.exec(value);
      return found ? lookUp(found[1], Number(found[2] ?? 1)) : value;
    }
    if (Array.isArray(value)) return typeof value.at(-1) === "number" ? value : value.map(coloured);
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, entry]) => [key, coloured(entry)]));
    }
    return value;
  }

  function template() {
    const axis = {
      gridcolor: lookUp("grid"), linecolor: lookUp("line"), zerolinecolor: lookUp("grid"),
      tickcolor: lookUp("line"), automargin: true, zeroline: false,
      title: { font: { color: lookUp("muted"), size: 12 }, standoff: 8 },
    };
    return {
      layout: {
        font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: lookUp("ink") },
        paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
        margin: { l: 56, r: 12, t: 8, b: 44 }, showlegend: false, hovermode: "closest",
        xaxis: axis, yaxis: axis,
        hoverlabel: {
          bgcolor: lookUp("surface"), bordercolor: lookUp("line"),
          font: { color: lookUp("ink"), size: 12 }, align: "left", namelength: -1,
        },
      },
    };
  }

  // --- drawing -------------------------------------------------------------------------------

  const isShown = (study, number) => number === undefined || number < 0 || (shown.get(study)?.has(number) ?? true);

  function visible(chart) {
    const study = chart.closest(".study");
    return spec(chart).data.filter((trace) => isShown(study, trace.meta));
  }

  // the ends of the vertical axis for what is shown, as `fitted` in chart.py has them
  function fitted(chart) {
    const { fit } = spec(chart);
    const figure = chart.closest("figure");
    const together = fit.together && figure ? charts.filter((one) => figure.contains(one)) : [chart];
    let [low, high] = [Infinity, -Infinity];
    const take = (v) => { if (v !== null) [low, high] = [Math.min(low, v), Math.max(high, v)]; };
    (fit.levels ?? []).forEach(take);
    together.forEach((one) => visible(one).forEach(({ y }) => y.forEach(take)));
    if (low > high) return undefined;
    const pad = 0.08 * Math.max(high - low, fit.percent ? 0.02 : 0) || 0.5;
    return [fit.percent ? Math.max(0, low - pad) : low - pad, high + pad];
  }

  function themed(chart) {
    const { layout, fit, readout } = spec(chart);
    const own = { ...coloured(layout), template: template() };
    if (fit) own.yaxis = { ...own.yaxis, range: fitted(chart) };
    if (readout) Object.assign(own, { hovermode: "x", hoverdistance: -1 });
    const quiet = readout ? { hoverinfo: "none" } : {};
    return { data: visible(chart).map((trace) => ({ ...quiet, ...coloured(trace) })), layout: own };
  }

  function draw(chart, size) {
    const { data, layout } = themed(chart);
    const figure = chart.closest("figure");
    Object.assign(layout, size ?? { autosize: true });
    layout.dragmode = figure?.dataset.drag ?? (matchMedia("(pointer: coarse)").matches ? false : "zoom");
    // what was zoomed stays so until something else is shown
    layout.uirevision = `${figure?.dataset.resets ?? 0} ${[...(shown.get(chart.closest(".study")) ?? [])]}`;
    chart.style.height = `${layout.height}px`;
    Plotly.react(chart, data, layout, config);
    chart.dataset.drawn = "";
    afterDrawing.forEach((act) => act(chart));
  }

  const watcher = new IntersectionObserver(
    (entries) => entries.filter((entry) => entry.isIntersecting).forEach(({ target }) => {
      watcher.unobserve(target);
      draw(target);
    }),
    { rootMargin: "500px 0px" },
  );

  // at once where they are near the reader, later where they are not
  function drawWhenSeen(some) {
    some.forEach((chart) => {
      delete chart.dataset.drawn;
      watcher.unobserve(chart);
      watcher.observe(chart);
    });
  }

  // --- light and dark ------------------------------------------------------------------------

  const button = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);

  function remembered() {
    try { return localStorage.getItem("uclearn-report-theme"); } catch { return null; }
  }

  function setTheme(theme) {
    if (theme) root.dataset.theme = theme;
    else delete root.dataset.theme;
    button.setAttribute("aria-pressed", String(isDark()));
    palette = new Map();
    drawWhenSeen(charts);
  }

  // what `act` makes of the page's light colours, whatever is on the screen
  function inLight(act) {
    const before = root.dataset.theme;
    root.dataset.theme = "light";
    palette = new Map();
    const made = act();
    if (before) root.dataset.theme = before;
    else delete root.dataset.theme;
    palette = new Map();
    return made;
  }

  button.addEventListener("click", () => {
    const theme = isDark() ? "light" : "dark";
    try { localStorage.setItem("uclearn-report-theme", theme); } catch { /* kept for this visit only */ }
    setTheme(theme);
  });
  system.addEventListener("change", () => setTheme(root.dataset.theme));

  // --- printing ------------------------------------------------------------------------------

  let before;
  addEventListener("beforeprint", () => {
    before = root.dataset.theme;
    root.dataset.theme = "light";
    palette = new Map();
    // a printed page is narrower than the window: charts are drawn for it, also those never seen
    const column = 660;
    charts.filter((chart) => chart.checkVisibility()).forEach((chart) => {
      const { height } = spec(chart).layout;
      const isPanel = chart.closest(".panel");
      draw(chart, { width: isPanel ? (column - 56) / 3 : column - 24, height: 0.7 * height });
    });
  });
  addEventListener("afterprint", () => setTheme(before));

  const start = () => setTheme(remembered());
  return { afterDrawing, charts, draw, drawWhenSeen, inLight, isShown, lookUp, shown, spec, start, themed };
})();
