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

  // What is pasted can be copied. A page that was opened from a file may have no clipboard: then a selection is copied.
  const told = document.createElement("p");
  told.className = "vh";
  told.setAttribute("role", "status");
  document.body.append(told);
  const put = async (text) => {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      const area = document.createElement("textarea");
      area.value = text;
      area.className = "vh";
      document.body.append(area);
      area.select();
      const done = document.execCommand("copy");
      area.remove();
      return done;
    }
  };
  for (const pre of all("pre.paste")) {
    const box = document.createElement("div");
    box.className = "with-copy";
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    pre.replaceWith(box);
    box.append(pre, button);
    button.addEventListener("click", async () => {
      const lines = pre.cloneNode(true);
      lines.querySelectorAll(".gap").forEach((gap) => gap.remove());
      const done = await put(lines.textContent.replace(/\n*$/, "\n"));
      button.textContent = done ? "Copied" : "Not copied";
      told.textContent = done ? "Copied" : "The browser does not let this page copy";
      button.focus();
      setTimeout(() => { button.textContent = "Copy"; told.textContent = ""; }, 2000);
    });
  }

  const cards = all("article.finding, tr[data-level]");
  if (!byId("filters")) return;
  if (cards.length > 1) byId("filters").hidden = false;
  const words = new Map();  // read once: a large report has thousands of them
  const said = (card) => {
    if (!words.has(card)) words.set(card, card.textContent.toLowerCase());
    return words.get(card);
  };
  const filter = () => {
    const asked = byId("find").value.toLowerCase().split(/\s+/).filter(Boolean);
    const level = byId("level").value;
    const status = byId("status").value;
    const narrowed = Boolean(level || status || asked.length);
    const open = new Set();
    let shown = 0;
    for (const card of cards) {
      const fits = (!level || card.dataset.level === level)
        && (!status || card.dataset.status === status)
        && asked.every((word) => said(card).includes(word));
      if (card.hidden === fits) card.hidden = !fits;
      if (!fits) continue;
      shown += 1;
      for (let at = card.closest("details"); at; at = at.parentElement.closest("details")) open.add(at);
    }
    if (narrowed) for (const folded of open) folded.open = true;
    byId("shown").textContent = `${shown} of ${cards.length} shown`;
  };
  let due = 0;
  const soon = () => { cancelAnimationFrame(due); due = requestAnimationFrame(filter); };
  for (const id of ["find", "level", "status"]) byId(id).addEventListener("input", soon);

  const orders = {
    place: () => 0,
    level: (one, other) => other.dataset.weight - one.dataset.weight,
    cost: (one, other) => other.dataset.cost - one.dataset.cost,
  };
  const places = all(".cards").map((list) => [list, Array.from(list.children)]);
  byId("sort").addEventListener("input", (event) => {
    for (const [list, inPlace] of places) {
      // without the blanks between the cards: each removal would walk over those that are left
      for (const node of Array.from(list.childNodes)) if (node.nodeType === Node.TEXT_NODE) node.remove();
      list.append(...inPlace.toSorted(orders[event.target.value]));
    }
  });
})();
