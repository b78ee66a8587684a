// Tables: sorted by a click on the head of a column, saved as CSV and LaTeX.
const tables = (() => {
  const said = (cell) => {
    const copy = cell.cloneNode(true);
    copy.querySelectorAll(".mark, .swatch").forEach((one) => one.remove());
    return copy.textContent.replaceAll("\u00a0", " ").trim();
  };

  // a row, or a row with the one below it that belongs to it
  function units(table) {
    const bodies = [...table.tBodies];
    return bodies.length > 1 ? bodies : [...bodies[0].rows];
  }
  const cellsOf = (unit) => [...(unit.rows ? unit.rows[0] : unit).cells];

  function value(text) {
    const plain = text.replaceAll("−", "-").replaceAll(",", "");
    const number = /^[±+]?\s*(-?\d+(?:\.\d+)?(?:e-?\d+)?)/.exec(plain);
    return number ? Number(number[1]) : null;
  }

  function sort(head) {
    const table = head.closest("table");
    const column = head.closest("th").cellIndex;
    const order = head.closest("th").ariaSort === "descending" ? "ascending" : "descending";
    const sign = order === "ascending" ? 1 : -1;
    const rows = units(table).map((unit) => [unit, said(cellsOf(unit)[column])]);
    const known = rows.filter(([, text]) => text && text !== "–");
    const byNumber = known.every(([, text]) => value(text) !== null);
    rows.sort(([, one], [, other]) => {
      if ((one === "–") !== (other === "–")) return one === "–" ? 1 : -1;
      return sign * (byNumber ? value(one) - value(other) : one.localeCompare(other, "en", { numeric: true }));
    });
    table.querySelectorAll("thead th").forEach((th) => th.removeAttribute("aria-sort"));
    head.closest("th").setAttribute("aria-sort", order);
    rows.forEach(([unit]) => unit.parentNode.append(unit));
  }

  function content(table) {
    const header = [...table.tHead.rows[0].cells].map(said);
    const rows = units(table).filter((unit) => !unit.hidden).map((unit) => cellsOf(unit).map(said));
    return { caption: said(table.caption), header, rows };
  }

  const csv = ({ header, rows }) => [header, ...rows]
    .map((row) => row.map((text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text)).join(","))
    .join("\n") + "\n";

  // the same signs as in latex.py
  const signs = {
    "\\": "\\textbackslash{}", "&": "\\&", "%": "\\%", "$": "\\$", "#": "\\#", "_": "\\_", "{": "\\{", "}": "\\}",
    "~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "±": "$\\pm$", "−": "$-$", "–": "--", "×": "$\\times$",
    "→": "$\\to$", "σ": "$\\sigma$", "²": "$^2$", "’": "'", "“": "``", "”": "''", "<": "$<$", ">": "$>$", "…": "\\dots{}",
  };
  const latex = (text) => [...text].map((sign) => signs[sign] ?? sign).join("");

  function tex({ caption, header, rows }) {
    const line = (row) => `${row.map(latex).join(" & ")} \\\\`;
    return ["% needs \\usepackage{booktabs}", "\\begin{table}", "\\centering", `\\caption{${latex(caption)}}`,
      `\\begin{tabular}{l${"r".repeat(header.length - 1)}}`, "\\toprule", line(header), "\\midrule", ...rows.map(line),
      "\\bottomrule", "\\end{tabular}", "\\end{table}", ""].join("\n");
  }

  function save(blob, name) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }

  // the address of the section, and a number where it has several of the kind
  function fileName(element, kind) {
    const place = element.closest("section");
    const name = place?.getAttribute("aria-labelledby") ?? "report";
    const all = [...(place ?? document).querySelectorAll(kind)].filter((one) => one.closest("section") === place);
    const number = all.indexOf(element);
    return number > 0 ? `${name}-${number + 1}` : name;
  }

  document.addEventListener("click", ({ target }) => {
    if (target.matches("button.sort")) sort(target);
    const kind = target.closest(".tabled [data-tool]")?.dataset.tool;
    if (!kind) return;
    const table = target.closest(".tabled").querySelector("table");
    const text = (kind === "csv" ? csv : tex)(content(table));
    save(new Blob([text], { type: "text/plain" }), `${fileName(table, "table")}.${kind}`);
  });
  return { fileName, save };
})();
