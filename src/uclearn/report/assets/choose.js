// What is shown: the legend of a study chooses it, in all its charts and tables.
(() => {
  const numberOf = (entry) => Number(entry.dataset.group);
  const labelOf = (entry) => entry.textContent.toLowerCase();

  function apply(study) {
    const own = page.shown.get(study);
    study.querySelectorAll("[data-group]").forEach((one) => {
      const here = page.isShown(study, numberOf(one));
      if (one.matches("button")) one.setAttribute("aria-pressed", String(here));
      else one.hidden = !here;
    });
    study.querySelectorAll("[data-family]").forEach((one) => {
      const numbers = one.dataset.family.split(" ").map(Number);
      const some = numbers.filter((number) => own.has(number)).length;
      one.setAttribute("aria-pressed", some === 0 ? "false" : some === numbers.length ? "true" : "mixed");
      const words = one.nextElementSibling.querySelector("summary");
      words.textContent = some === numbers.length ? `${some} settings` : `${some} of ${numbers.length} settings`;
    });
    study.querySelectorAll(".legend output").forEach((told) => {
      const entries = [...told.closest(".legend").querySelectorAll("button[data-group]")];
      told.textContent = `${entries.filter((one) => own.has(numberOf(one))).length} of ${entries.length} shown`;
    });
  }

  function change(study, act) {
    act(page.shown.get(study));
    apply(study);
    page.drawWhenSeen(page.charts.filter((chart) => study.contains(chart)));
  }

  // exactly those of `entries` that `wanted` says
  const choose = (study, entries, wanted) => change(study, (own) => entries.forEach((one) => {
    if (wanted(one)) own.add(numberOf(one));
    else own.delete(numberOf(one));
  }));

  document.querySelectorAll(".study").forEach((study) => {
    const entries = [...study.querySelectorAll(".legend button[data-group]")];
    const atFirst = new Set(entries.filter((one) => one.ariaPressed === "true").map(numberOf));
    page.shown.set(study, new Set(atFirst));
    if (entries.length > 0) apply(study);
    else page.shown.delete(study);

    study.addEventListener("click", ({ target }) => {
      const entry = target.closest(".legend button");
      if (!entry) return;
      const here = [...entry.closest(".legend").querySelectorAll("button[data-group]")];
      if (entry.dataset.group) {
        change(study, (own) => own.delete(numberOf(entry)) || own.add(numberOf(entry)));
      } else if (entry.dataset.family) {
        const numbers = entry.dataset.family.split(" ").map(Number);
        const on = !numbers.some((number) => page.shown.get(study).has(number));
        const first = numbers.filter((number) => atFirst.has(number));
        change(study, (own) => {
          if (on) (first.length ? first : numbers).forEach((number) => own.add(number));
          else numbers.forEach((number) => own.delete(number));
        });
      } else if (entry.dataset.show) {
        choose(study, here, (one) => entry.dataset.show === "all" || atFirst.has(numberOf(one)));
      }
    });

    study.addEventListener("input", ({ target }) => {
      if (!target.matches(".legend input")) return;
      const words = target.value.toLowerCase().split(/\s+/).filter(Boolean);
      const here = [...target.closest(".legend").querySelectorAll("button[data-group]")];
      choose(study, here, (one) => (words.length === 0
        ? atFirst.has(numberOf(one))
        : words.every((word) => labelOf(one).includes(word))));
    });
  });
  page.start();
})();
