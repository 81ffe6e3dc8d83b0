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

  // A long table is searched, sorted by a column, and shown in parts. Without a script all of it is there.
  const PART = 100;
  const collator = new Intl.Collator("en", { numeric: true });
  const order = (one, other) => {
    const difference = Number(one) - Number(other);
    return Number.isNaN(difference) ? collator.compare(one, other) : difference;
  };
  for (const table of all("table.paged")) {
    const body = table.tBodies[0];
    let rows = Array.from(body.rows);
    const texts = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));
    const bar = document.createElement("p");
    bar.className = "pager small";
    const label = document.createElement("label");
    label.textContent = `Search ${table.dataset.of} `;
    const find = document.createElement("input");
    find.type = "search";
    label.append(find);
    const turn = (text, by) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = text;
      button.addEventListener("click", () => { first += by; show(); });
      return button;
    };
    const back = turn("Previous", -PART);
    const on = turn("Next", PART);
    const where = document.createElement("span");
    where.setAttribute("role", "status");
    bar.append(label, back, on, where);
    table.parentElement.before(bar);
    let first = 0;
    const show = () => {
      const asked = find.value.toLowerCase().split(/\s+/).filter(Boolean);
      const fits = rows.filter((row) => asked.every((word) => texts.get(row).includes(word)));
      first = Math.max(0, Math.min(first, fits.length - 1));
      first -= first % PART;
      body.replaceChildren(...fits.slice(first, first + PART));
      back.disabled = first === 0;
      on.disabled = first + PART >= fits.length;
      back.hidden = on.hidden = fits.length <= PART;
      const of = fits.length === rows.length ? `${rows.length}` : `${fits.length} of ${rows.length}`;
      where.textContent = fits.length ? `${first + 1} to ${Math.min(first + PART, fits.length)} of ${of}` : `none of ${rows.length}`;
    };
    find.addEventListener("input", () => { first = 0; show(); });
    Array.from(table.tHead.rows[0].cells).forEach((head, at) => {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const down = head.ariaSort === "ascending";
        for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
        head.ariaSort = down ? "descending" : "ascending";
        const way = down ? -1 : 1;
        rows = rows.toSorted((one, other) => way * order(one.cells[at].dataset.key, other.cells[at].dataset.key));
        first = 0;
        show();
      });
    });
    addEventListener("beforeprint", () => body.replaceChildren(...rows));
    addEventListener("afterprint", show);
    show();
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
