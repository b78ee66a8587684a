// A picture in SVG, as Plotly draws it, as a PDF of one page: lines stay lines and text stays text.
const pdf = (() => {
  const number = (value) => String(Number(value.toFixed(3)));
  const numbers = (...values) => values.map(number).join(" ");
  const latin = new TextEncoder();

  // --- text ----------------------------------------------------------------------------------

  const windows = { "–": 0x96, "—": 0x97, "‘": 0x91, "’": 0x92, "“": 0x93, "”": 0x94, "…": 0x85, "•": 0x95, "−": 0x96, "€": 0x80, "★": 0x2a };
  const symbols = { "σ": 0x73, "β": 0x62, "α": 0x61, "→": 0xae, "≤": 0xa3, "≥": 0xb3 };

  // pieces of one font: [name of the font, codes as hexadecimal digits]
  function pieces(text, bold) {
    const found = [];
    for (const sign of text) {
      const symbol = symbols[sign];
      const code = symbol ?? windows[sign] ?? (sign.charCodeAt(0) < 256 ? sign.charCodeAt(0) : 0x3f);
      const font = symbol ? "/F3" : bold ? "/F2" : "/F1";
      if (found.at(-1)?.[0] !== font) found.push([font, ""]);
      found.at(-1)[1] += code.toString(16).padStart(2, "0");
    }
    return found;
  }

  // --- shapes --------------------------------------------------------------------------------

  function outline(element) {
    if (element.tagName === "rect") {
      const [x, y, w, h] = ["x", "y", "width", "height"].map((name) => element[name].baseVal.value);
      return w && h ? `${numbers(x, y, w, h)} re` : "";
    }
    const d = element.getAttribute("d") ?? "";
    if (/a/i.test(d)) return sampled(element);
    const parts = [];
    let [x, y, startX, startY] = [0, 0, 0, 0];
    for (const [, command, rest] of d.matchAll(/([MLHVCQZ])([^MLHVCQZ]*)/gi)) {
      const given = (rest.match(/-?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?/gi) ?? []).map(Number);
      const relative = command === command.toLowerCase();
      const kind = command.toUpperCase();
      const size = { M: 2, L: 2, H: 1, V: 1, C: 6, Q: 4, Z: 0 }[kind];
      if (kind === "Z") {
        parts.push("h");
        [x, y] = [startX, startY];
      }
      for (let k = 0; size && k + size <= given.length; k += size) {
        const own = given.slice(k, k + size);
        if (kind === "H") [x] = [relative ? x + own[0] : own[0]];
        else if (kind === "V") [y] = [relative ? y + own[0] : own[0]];
        const at = size === 1 ? [x, y] : own.map((v, i) => (relative ? v + (i % 2 ? y : x) : v));
        const [endX, endY] = at.slice(-2);
        if (kind === "M" && k === 0) {
          [startX, startY] = [endX, endY];
          parts.push(`${numbers(...at)} m`);
        } else if (kind === "C") parts.push(`${numbers(...at)} c`);
        else if (kind === "Q") {
          const mix = (from, to) => from + (2 / 3) * (to - from);
          parts.push(`${numbers(mix(x, at[0]), mix(y, at[1]), mix(endX, at[0]), mix(endY, at[1]), endX, endY)} c`);
        } else parts.push(`${numbers(...at)} l`);
        [x, y] = [endX, endY];
      }
    }
    return parts.join(" ");
  }

  // circles: close enough as polygons
  function sampled(path) {
    const [length, steps] = [path.getTotalLength(), 48];
    const points = Array.from({ length: steps }, (_, k) => path.getPointAtLength((k * length) / steps));
    return `${points.map(({ x, y }, k) => `${numbers(x, y)} ${k ? "l" : "m"}`).join(" ")} h`;
  }

  function rgba(color) {
    const parts = color.match(/[\d.]+/g)?.map(Number);
    if (!parts || color === "none") return null;
    const [r, g, b, a = 1] = parts;
    return a === 0 ? null : { ink: numbers(r / 255, g / 255, b / 255), alpha: a };
  }

  // --- the whole -----------------------------------------------------------------------------

  async function pixels(image) {
    const loaded = new Image();
    loaded.src = image.href.baseVal;
    await loaded.decode();
    const canvas = Object.assign(document.createElement("canvas"), { width: loaded.width, height: loaded.height });
    const pen = canvas.getContext("2d");
    pen.drawImage(loaded, 0, 0);
    const { data } = pen.getImageData(0, 0, loaded.width, loaded.height);
    const [colors, alphas] = [new Uint8Array((data.length / 4) * 3), new Uint8Array(data.length / 4)];
    for (let k = 0; k < alphas.length; k += 1) {
      colors.set(data.subarray(4 * k, 4 * k + 3), 3 * k);
      alphas[k] = data[4 * k + 3];
    }
    return { width: loaded.width, height: loaded.height, colors: await packed(colors), alphas: await packed(alphas) };
  }

  async function packed(bytes) {
    const stream = new Blob([bytes]).stream().pipeThrough(new CompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }

  async function made(svg, width, height) {
    const images = new Map();
    for (const image of svg.querySelectorAll("image")) images.set(image, await pixels(image));
    const alphas = new Set();
    const origin = svg.getScreenCTM().inverse();
    const placeOf = (element) => origin.multiply(element.getScreenCTM());
    const out = [];

    function state(alpha) {
      const name = Math.round(100 * alpha);
      alphas.add(name);
      return `/A${name} gs`;
    }

    function clip(element) {
      const found = /#([^'")]+)/.exec(element.getAttribute("clip-path") ?? "");
      const rect = found && svg.querySelector(`[id="${found[1]}"] rect`);
      if (!rect) return false;
      const place = placeOf(element);
      const [x, y, w, h] = ["x", "y", "width", "height"].map((name) => rect[name].baseVal.value);
      const corners = [[x, y], [x + w, y], [x + w, y + h], [x, y + h]].map(([a, b]) => new DOMPoint(a, b).matrixTransform(place));
      out.push("q", `${corners.map((p, k) => `${numbers(p.x, p.y)} ${k ? "l" : "m"}`).join(" ")} h W n`);
      return true;
    }

    function write(element, style, opacity) {
      const ink = rgba(style.fill);
      const text = element.textContent;
      if (!ink || !text.trim()) return;
      const at = element.getStartPositionOfChar(0);
      const size = number(parseFloat(style.fontSize));
      const runs = pieces(text, Number(style.fontWeight) >= 600);
      out.push(`BT ${state(ink.alpha * opacity)} ${ink.ink} rg ${numbers(1, 0, 0, -1, at.x, at.y)} Tm`);
      out.push(...runs.map(([font, codes]) => `${font} ${size} Tf <${codes}> Tj`), "ET");
    }

    function paint(element, style, opacity) {
      const path = outline(element);
      const fill = rgba(style.fill);
      const width = parseFloat(style.strokeWidth);
      const stroke = width > 0 ? rgba(style.stroke) : null;
      if (!path || (!fill && !stroke)) return;
      if (fill) {
        const alpha = fill.alpha * opacity * Number(style.fillOpacity);
        if (alpha > 0) out.push(`${state(alpha)} ${fill.ink} rg ${path} f`);
      }
      if (stroke) {
        const alpha = stroke.alpha * opacity * Number(style.strokeOpacity);
        const dashes = style.strokeDasharray === "none" ? "" : style.strokeDasharray.match(/[\d.]+/g).join(" ");
        if (alpha > 0) out.push(`${state(alpha)} ${stroke.ink} RG ${number(width)} w [${dashes}] 0 d ${path} S`);
      }
    }

    function walk(element, above) {
      const style = getComputedStyle(element);
      if (style.display === "none" || style.visibility === "hidden") return;
      if (["defs", "clipPath", "style", "title"].includes(element.tagName)) return;
      const opacity = above * Number(style.opacity);
      const clipped = clip(element);
      const leaf = ["path", "rect", "image"].includes(element.tagName)
        || (["text", "tspan"].includes(element.tagName) && element.children.length === 0);
      if (leaf) {
        const { a, b, c, d, e, f } = placeOf(element);
        out.push("q", `${numbers(a, b, c, d, e, f)} cm`);
        if (element.tagName === "image") {
          const [x, y, w, h] = ["x", "y", "width", "height"].map((name) => element[name].baseVal.value);
          out.push(`${state(opacity)} ${numbers(w, 0, 0, -h, x, y + h)} cm /I${[...images.keys()].indexOf(element)} Do`);
        } else if (element.tagName.startsWith("t")) write(element, style, opacity);
        else paint(element, style, opacity);
        out.push("Q");
      } else [...element.children].forEach((child) => walk(child, opacity));
      if (clipped) out.push("Q");
    }

    walk(svg, 1);
    return file(out.join("\n"), alphas, [...images.values()], 0.75 * width, 0.75 * height);
  }

  function file(content, alphas, images, width, height) {
    const fonts = ["Helvetica", "Helvetica-Bold", "Symbol"];
    const font = (name) => `<</Type/Font/Subtype/Type1/BaseFont/${name}${name === "Symbol" ? "" : "/Encoding/WinAnsiEncoding"}>>`;
    const states = [...alphas].map((name) => `/A${name}<</ca ${name / 100}/CA ${name / 100}>>`).join("");
    const pictures = images.map((_, k) => `/I${k} ${5 + 2 * k} 0 R`).join("");
    const resources = `<</Font<<${fonts.map((name, k) => `/F${k + 1} ${font(name)}`).join("")}>>/ExtGState<<${states}>>/XObject<<${pictures}>>>>`;
    const stream = (head, bytes) => [`<<${head}/Length ${bytes.length}>>stream\n`, bytes, "\nendstream"];
    const image = ({ width: w, height: h, colors, alphas: mask }, k) => [
      stream(`/Type/XObject/Subtype/Image/Width ${w}/Height ${h}/ColorSpace/DeviceRGB/BitsPerComponent 8/Filter/FlateDecode/SMask ${6 + 2 * k} 0 R`, colors),
      stream(`/Type/XObject/Subtype/Image/Width ${w}/Height ${h}/ColorSpace/DeviceGray/BitsPerComponent 8/Filter/FlateDecode`, mask),
    ];
    const drawing = latin.encode(`${numbers(0.75, 0, 0, -0.75, 0, height)} cm\n${content}`);
    const objects = [
      ["<</Type/Catalog/Pages 2 0 R>>"],
      ["<</Type/Pages/Kids[3 0 R]/Count 1>>"],
      [`<</Type/Page/Parent 2 0 R/MediaBox[0 0 ${numbers(width, height)}]/Contents 4 0 R/Resources ${resources}>>`],
      stream("", drawing),
      ...images.flatMap(image),
    ];
    const parts = ["%PDF-1.4\n"];
    const size = (part) => (typeof part === "string" ? latin.encode(part).length : part.length);
    let place = size(parts[0]);
    const places = objects.map((object, k) => {
      const begin = place;
      for (const part of [`${k + 1} 0 obj\n`, ...object, "\nendobj\n"]) {
        parts.push(part);
        place += size(part);
      }
      return begin;
    });
    const table = places.map((at) => `${String(at).padStart(10, "0")} 00000 n \n`).join("");
    parts.push(`xref\n0 ${objects.length + 1}\n0000000000 65535 f \n${table}trailer\n<</Size ${objects.length + 1}/Root 1 0 R>>\nstartxref\n${place}\n%%EOF\n`);
    return new Blob(parts, { type: "application/pdf" });
  }

  return { made };
})();
