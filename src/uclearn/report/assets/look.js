// Looking closer: zoom, pan and reset, what is said of the place that is pointed at, names of points.
(() => {
  const chartsOf = (figure) => page.charts.filter((chart) => figure.contains(chart) && chart._fullLayout);

  // --- zoom, pan, reset ----------------------------------------------------------------------

  function zoom(chart, factor) {
    const update = {};
    for (const name of ["xaxis", "yaxis"]) {
      const { range } = chart._fullLayout[name];
      const [from, to] = range.map(Number);
      const [middle, half] = [(from + to) / 2, (to - from) / 2];
      update[`${name}.range`] = [middle - factor * half, middle + factor * half];
    }
    Plotly.relayout(chart, update);
  }

  const tools = {
    in: (figure) => chartsOf(figure).forEach((chart) => zoom(chart, 0.7)),
    out: (figure) => chartsOf(figure).forEach((chart) => zoom(chart, 1 / 0.7)),
    pan: (figure, button) => {
      figure.dataset.drag = button.ariaPressed === "true" ? "zoom" : "pan";
      button.setAttribute("aria-pressed", String(figure.dataset.drag === "pan"));
      chartsOf(figure).forEach((chart) => Plotly.relayout(chart, { dragmode: figure.dataset.drag }));
    },
    reset: (figure) => {
      figure.dataset.resets = 1 + Number(figure.dataset.resets ?? 0);
      chartsOf(figure).forEach((chart) => page.draw(chart));
    },
  };

  document.addEventListener("click", ({ target }) => {
    const button = target.closest("figure [data-tool]");
    tools[button?.dataset.tool]?.(button.closest("figure"), button);
  });

  // --- what is said of a place ---------------------------------------------------------------

  const most = 12;

  function say(chart, { points, event }) {
    const { before, after, percent, digits } = page.spec(chart).readout;
    const format = (y) => (percent
      ? `${(100 * y).toFixed(digits)}\u00a0%`
      : y.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits }));
    const pointer = event.clientY - chart.getBoundingClientRect().top;
    const away = ({ y, yaxis }) => Math.abs(yaxis.c2p(y) + yaxis._offset - pointer);
    const known = points.filter(({ y }) => y !== null && y !== undefined);
    if (known.length === 0) return;
    const nearest = known.reduce((one, other) => (away(other) < away(one) ? other : one));
    const best = [...known].sort((one, other) => other.y - one.y);
    const told = best.slice(0, most);
    if (!told.includes(nearest)) told[most - 1] = nearest;
    const readout = chart.closest("figure").querySelector(".readout");
    const x = Number(nearest.x).toLocaleString("en");
    readout.replaceChildren(`${before}${x}${after}: `, ...told.map((point) => {
      const entry = document.createElement(point === nearest ? "b" : "span");
      const dot = entry.appendChild(document.createElement("i"));
      dot.style.background = point.data.line.color;
      const more = point === nearest && point.text ? ` (${point.text})` : "";
      entry.append(`${decode(point.data.name)} ${format(point.y)}${more}`);
      return entry;
    }), best.length > most ? ` and ${best.length - most} more` : "");
    readout.dataset.says = "";
  }

  const decode = (text) => text.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");

  function listen(chart) {
    if (chart.dataset.listens !== undefined) return;
    chart.dataset.listens = "";
    const { readout, labels } = page.spec(chart);
    if (readout) {
      chart.on("plotly_hover", (event) => say(chart, event));
      chart.on("plotly_unhover", () => delete chart.closest("figure").querySelector(".readout").dataset.says);
    }
    if (labels) chart.on("plotly_relayout", (update) => ("annotations" in update ? null : name(chart)));
  }

  // --- names of points that do not meet ------------------------------------------------------

  const pen = document.createElement("canvas").getContext("2d");
  const longest = 28;
  const places = [18, 34, 52].flatMap((far) => [
    [0, -far], [0, far], [1, 0], [-1, 0], [1, -far], [-1, -far], [1, far], [-1, far],
  ]);

  function name(chart) {
    const { xaxis, yaxis, width, height } = chart._fullLayout;
    pen.font = `12px ${getComputedStyle(document.body).fontFamily}`;
    const at = ({ x, y }, k) => [xaxis.l2p(x[k]) + xaxis._offset, yaxis.l2p(y[k]) + yaxis._offset];
    const traces = chart.data.filter((trace) => trace.x);
    // what is taken: every point, and every name that has found its place
    const taken = traces.flatMap((trace) => trace.x.map((_, k) => {
      const [x, y] = at(trace, k);
      return [x - 7, y - 7, x + 7, y + 7];
    }));
    const meets = ([a, b, c, d]) => a < 2 || c > width - 2 || b < 2 || d > height - 30
      || taken.some(([e, f, g, h]) => a < g && c > e && b < h && d > f);
    const annotations = [];
    for (const trace of traces.filter(({ ids }) => ids)) {
      const text = trace.ids[0].length > longest ? `${trace.ids[0].slice(0, longest - 1)}…` : trace.ids[0];
      const half = pen.measureText(decode(text)).width / 2 + 3;
      const [x, y] = at(trace, 0);
      for (const [side, down] of places) {
        const across = side * (half + 11);
        const box = [x + across - half, y + down - 8, x + across + half, y + down + 8];
        if (meets(box)) continue;
        taken.push(box);
        const far = Math.abs(down) > 20;
        annotations.push({
          x: trace.x[0], y: trace.y[0], text, ax: across, ay: down, xanchor: "center", yanchor: "middle",
          showarrow: true, arrowhead: 0, arrowwidth: 1, standoff: 8,
          arrowcolor: far ? page.lookUp("muted", 0.6) : "rgba(0,0,0,0)",
          font: { color: trace.marker.color }, borderpad: 0,
        });
        break;
      }
    }
    Plotly.relayout(chart, { annotations });
  }

  page.afterDrawing.push((chart) => {
    listen(chart);
    if (page.spec(chart).labels) name(chart);
  });
})();
