"use strict";
// Draws the charts where they come into view, in the colours of the style sheet.
(() => {
  const root = document.documentElement;
  const charts = [...document.querySelectorAll(".chart")];
  const specs = new Map(charts.map((chart) => [chart, JSON.parse(chart.querySelector("script").textContent)]));
  const hidden = new Map(); // study -> numbers of the groups that are not shown
  const config = { displayModeBar: false, responsive: true, locale: "en" };

  // --- colours -------------------------------------------------------------------------------

  const probe = document.body.appendChild(document.createElement("span"));
  probe.hidden = true;
  let palette = new Map();

  function lookUp(name, opacity) {
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
    if (Array.isArray(value)) return value.map(coloured);
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, entry]) => [key, coloured(entry)]));
    }
    return value;
  }

  function template() {
    const axis = {
      gridcolor: lookUp("grid", 1), linecolor: lookUp("line", 1), zerolinecolor: lookUp("grid", 1),
      tickcolor: lookUp("line", 1), automargin: true, fixedrange: true, zeroline: false,
      title: { font: { color: lookUp("muted", 1), size: 12 }, standoff: 8 },
    };
    return {
      layout: {
        font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: lookUp("ink", 1) },
        paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
        margin: { l: 56, r: 12, t: 8, b: 44 }, showlegend: false, hovermode: "closest", dragmode: false,
        xaxis: axis, yaxis: axis,
        hoverlabel: {
          bgcolor: lookUp("surface", 1), bordercolor: lookUp("line", 1),
          font: { color: lookUp("ink", 1), size: 12 }, align: "left", namelength: -1,
        },
      },
    };
  }

  // --- drawing -------------------------------------------------------------------------------

  function themed(chart) {
    const gone = hidden.get(chart.closest(".study")) ?? new Set();
    const { data, layout } = specs.get(chart);
    return {
      data: data.map((trace) => ({ ...coloured(trace), visible: !gone.has(trace.meta) })),
      layout: { ...coloured(layout), template: template() },
    };
  }

  function draw(chart, size) {
    const { data, layout } = themed(chart);
    Object.assign(layout, size ?? { autosize: true });
    chart.style.height = `${layout.height}px`;
    Plotly.react(chart, data, layout, config);
    chart.dataset.drawn = "";
  }

  const watcher = new IntersectionObserver(
    (entries) => entries.filter((entry) => entry.isIntersecting).forEach(({ target }) => {
      watcher.unobserve(target);
      draw(target);
    }),
    { rootMargin: "800px 0px" },
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

  button.addEventListener("click", () => {
    const theme = isDark() ? "light" : "dark";
    try { localStorage.setItem("uclearn-report-theme", theme); } catch { /* kept for this visit only */ }
    setTheme(theme);
  });
  system.addEventListener("change", () => setTheme(root.dataset.theme));
  setTheme(remembered());

  // --- showing and hiding --------------------------------------------------------------------

  document.querySelectorAll(".legend button").forEach((entry) => entry.addEventListener("click", () => {
    const study = entry.closest(".study");
    const gone = hidden.get(study) ?? new Set();
    hidden.set(study, gone);
    const number = Number(entry.dataset.group);
    if (!gone.delete(number)) gone.add(number);
    study.querySelectorAll(`.legend button[data-group="${number}"]`).forEach((twin) => {
      twin.setAttribute("aria-pressed", String(!gone.has(number)));
    });
    drawWhenSeen(charts.filter((chart) => study.contains(chart)));
  }));

  // --- saving and printing -------------------------------------------------------------------

  document.querySelectorAll(".save").forEach((entry) => entry.addEventListener("click", () => {
    const place = entry.closest("section");
    const { data, layout } = themed(place.querySelector(".chart"));
    Plotly.downloadImage(
      { data, layout: { ...layout, showlegend: true, paper_bgcolor: lookUp("surface", 1) } },
      { format: "svg", width: 800, height: layout.height, filename: place.getAttribute("aria-labelledby") },
    );
  }));

  let before;
  addEventListener("beforeprint", () => {
    before = root.dataset.theme;
    root.dataset.theme = "light";
    palette = new Map();
    // a printed page is narrower than the window: charts are drawn for it, also those never seen
    const column = 660;
    charts.filter((chart) => chart.checkVisibility()).forEach((chart) => {
      const { height } = specs.get(chart).layout;
      const isPanel = chart.closest(".panel");
      draw(chart, { width: isPanel ? (column - 56) / 3 : column - 24, height: isPanel ? 0.8 * height : height });
    });
  });
  addEventListener("afterprint", () => setTheme(before));
})();
