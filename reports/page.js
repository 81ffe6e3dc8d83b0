"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const all = (selector) => Array.from(document.querySelectorAll(selector));

  byId("controls").hidden = false;
  byId("theme").addEventListener("change", (event) => {
    const theme = event.target.value;
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
  });

  const expand = byId("expand");
  expand.addEventListener("click", () => {
    const open = expand.textContent === "Expand all";
    all("main details").forEach((details) => { details.open = open; });
    expand.textContent = open ? "Collapse all" : "Expand all";
  });
  addEventListener("beforeprint", () => all("main details").forEach((details) => { details.open = true; }));

  const cards = all("article.finding");
  if (cards.length > 1) byId("filters").hidden = false;
  const filter = () => {
    const words = byId("find").value.toLowerCase().split(/\s+/).filter(Boolean);
    const level = byId("level").value;
    const status = byId("status").value;
    let shown = 0;
    for (const card of cards) {
      const text = card.textContent.toLowerCase();
      const fits = (!level || card.dataset.level === level)
        && (!status || card.dataset.status === status)
        && words.every((word) => text.includes(word));
      card.hidden = !fits;
      if (fits) shown += 1;
      if (fits && (level || status || words.length)) {
        const folded = card.closest("details");
        if (folded) folded.open = true;
      }
    }
    byId("shown").textContent = `${shown} of ${cards.length} shown`;
  };
  for (const id of ["find", "level", "status"]) byId(id).addEventListener("input", filter);
})();
