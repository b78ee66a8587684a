// A figure as a file: all its charts, their titles, legend and scale in one picture, in light colours.
(() => {
  const escaped = (text) => text.replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`);
  const font = "Helvetica, Arial, 'Liberation Sans', sans-serif";
  const pen = document.createElement("canvas").getContext("2d");
  const pad = 10;

  const written = (x, y, text, more = "") => `<text x="${x}" y="${y}" ${more}>${escaped(text)}</text>`;

  function marker(symbol = "circle", x, y, color) {
    const [r, open] = [4, symbol.endsWith("-open")];
    const outline = {
      circle: `M${x + r} ${y}A${r} ${r} 0 1 1 ${x - r} ${y}A${r} ${r} 0 1 1 ${x + r} ${y}Z`,
      square: `M${x - r} ${y - r}H${x + r}V${y + r}H${x - r}Z`,
      diamond: `M${x} ${y - 1.3 * r}L${x + 1.3 * r} ${y}L${x} ${y + 1.3 * r}L${x - 1.3 * r} ${y}Z`,
      "triangle-up": `M${x} ${y - r}L${x + r} ${y + r}H${x - r}Z`,
      "triangle-down": `M${x} ${y + r}L${x + r} ${y - r}H${x - r}Z`,
    }[symbol.replace("-open", "")];
    return `<path d="${outline}" fill="${open ? "none" : color}" stroke="${color}" stroke-width="1.5"/>`;
  }

  // names of what is shown, in as many lines as they need
  function legend(traces, width, top) {
    const names = new Map(traces.filter(({ meta, line, marker: own }) => meta !== undefined && (own ?? line) && !false)
      .filter(({ name }) => name).map((trace) => [trace.meta, trace]));
    const parts = [];
    let [x, y] = [pad, top + 16];
    pen.font = `12px ${font}`;
    for (const { name, marker: own, line } of names.values()) {
      const plain = new DOMParser().parseFromString(name, "text/html").body.textContent;
      const needs = 34 + pen.measureText(plain).width;
      if (x > pad && x + needs > width - pad) [x, y] = [pad, y + 18];
      const color = own?.color ?? line.color;
      parts.push(marker(own?.symbol, x + 6, y - 4, color), written(x + 16, y, plain));
      x += needs;
    }
    return { text: parts.join(""), height: parts.length ? y - top + 10 : 0 };
  }

  function scale(figure, top) {
    const bar = figure.querySelector(".scale-bar");
    if (!bar) return { text: "", height: 0 };
    const [low, , high] = [...bar.children].map((one) => one.textContent);
    const kind = [...bar.querySelector(".ramp").classList].find((name) => name !== "ramp");
    pen.font = `12px ${font}`;
    const left = pad + pen.measureText(low).width + 8;
    const cells = [0, 1, 2, 3, 4].map((k) => `<rect x="${left + 26 * k}" y="${top + 6}" width="26" height="10" fill="${page.lookUp(`${kind}-${k}`)}"/>`);
    return { text: written(pad, top + 15, low) + cells.join("") + written(left + 138, top + 15, high), height: 26 };
  }

  async function picture(figure) {
    const charts = page.charts.filter((chart) => figure.contains(chart) && chart.checkVisibility());
    const panels = charts.length > 1 || charts[0]?.closest(".panel");
    const columns = panels ? Math.min(charts.length, charts.length > 9 ? 4 : 3) : 1;
    const width = panels ? 270 * columns : 760;
    const { drawn, above, ink, below } = page.inLight(() => {
      const ready = charts.map((chart) => page.themed(chart));
      ready.forEach(({ layout }) => { layout.template.layout.font.family = font; });
      return {
        drawn: ready, ink: page.lookUp("ink"), above: scale(figure, 0),
        below: (top) => legend(ready.flatMap(({ data }) => data), width, top),
      };
    });
    const parts = [above.text];
    let [top, tallest] = [above.height, 0];
    for (const [k, { data, layout }] of drawn.entries()) {
      const [column, title] = [k % columns, charts[k].closest(".panel")?.querySelector("h4").textContent];
      if (column === 0 && k > 0) [top, tallest] = [top + tallest, 0];
      const size = { width: width / columns, height: layout.height };
      const svg = await Plotly.toImage({ data, layout: { ...layout, ...size } }, { format: "svg", imageDataOnly: true, ...size });
      const head = title ? 20 : 0;
      if (title) parts.push(written(column * size.width + pad, top + 14, title, 'font-weight="bold"'));
      parts.push(`<g transform="translate(${column * size.width} ${top + head})">${svg}</g>`);
      tallest = Math.max(tallest, size.height + head + 6);
    }
    const names = below(top + tallest);
    const height = top + tallest + names.height;
    const text = `<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="${font}" font-size="12" fill="${ink}"><rect width="${width}" height="${height}" fill="#ffffff"/>${parts.join("")}${names.text}</svg>`;
    return { text, width, height };
  }

  async function png({ text, width, height }) {
    const image = new Image();
    image.src = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
    await image.decode();
    const canvas = Object.assign(document.createElement("canvas"), { width: 3 * width, height: 3 * height });
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    URL.revokeObjectURL(image.src);
    return new Promise((done) => { canvas.toBlob(done, "image/png"); });
  }

  async function paper({ text, width, height }) {
    const place = document.body.appendChild(document.createElement("div"));
    place.style.cssText = "position:absolute;left:-99999px;top:0";
    place.innerHTML = text;
    try {
      return await pdf.made(place.firstElementChild, width, height);
    } finally {
      place.remove();
    }
  }

  const kinds = { svg: async ({ text }) => new Blob([text], { type: "image/svg+xml" }), png, pdf: paper };

  document.addEventListener("click", async ({ target }) => {
    const button = target.closest("figure > .tools [data-tool]");
    const make = kinds[button?.dataset.tool];
    if (!make) return;
    const figure = button.closest("figure");
    tables.save(await make(await picture(figure)), `${tables.fileName(figure, "figure")}.${button.dataset.tool}`);
  });
})();
