// Sorting, filtering, details of a cell, enlarged figures. Without this script everything can still be read.
"use strict";
const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const byId = name => document.getElementById(name);
document.documentElement.classList.add("js");

// --- Sorting: ascending, descending, then the order of the paper again. Cells without a value stand last.
const inOrder = new Map(all(".sortable tbody").map(body => [body, [...body.rows]]));

function value(cell, part) {
  if (cell.dataset.v !== undefined) return cell.dataset.v;
  const found = cell.querySelector(part);
  if (found) return found.textContent.replace(/^\((.*?)[†‡]?\)$/, "$1");
  return cell.querySelector("button") ? "" : cell.textContent.trim();
}

function sort(header) {
  const body = header.closest("table").tBodies[0], column = header.cellIndex;
  const next = { none: "ascending", ascending: "descending", descending: "none" }[header.ariaSort];
  for (const other of header.parentElement.cells) other.ariaSort = "none";
  header.ariaSort = next;
  const rows = [...inOrder.get(body)];
  if (next !== "none") {
    const part = rows.some(row => row.cells[column].querySelector(".o")) ? ".o" : ".p";
    const keys = new Map(rows.map(row => [row, value(row.cells[column], part)]));
    const filled = [...keys.values()].filter(key => key !== "");
    const numbers = filled.every(key => !Number.isNaN(Number(key.replaceAll(",", ""))));
    const sign = next === "ascending" ? 1 : -1;
    const compare = numbers ? (a, b) => a.replaceAll(",", "") - b.replaceAll(",", "") : (a, b) => a.localeCompare(b);
    rows.sort((a, b) => (keys.get(a) === "") - (keys.get(b) === "") || sign * compare(keys.get(a), keys.get(b)));
  }
  body.append(...rows);
}
for (const button of all(".sortable thead button")) button.addEventListener("click", () => sort(button.parentElement));

// --- Filtering
const words = new WeakMap(); // row -> its text in small letters, with what its cells tell when they are pressed
function says(row, text) {
  if (!words.has(row)) {
    const told = all("button", row).map(button => Object.values(button.dataset).join(" "));
    words.set(row, [row.textContent, ...told].join(" ").toLowerCase());
  }
  return words.get(row).includes(text);
}

function wanted(form) {
  const data = new FormData(form), get = name => data.get(name) ?? "";
  return { papers: data.getAll("paper"), metric: get("metric"), status: get("status"), text: get("text").trim().toLowerCase() };
}

function filterTable(article, ask) {
  const table = article.querySelector("table"), heads = [...table.tHead.rows[0].cells];
  const shown = heads.map((head, i) => i === 0 || !ask.metric || head.dataset.m === ask.metric);
  table.toggleAttribute("data-only", ask.status !== "");
  const titled = ask.text && article.querySelector("h3").textContent.toLowerCase().includes(ask.text);
  let count = 0;
  for (const row of table.rows) {
    [...row.cells].forEach((cell, i) => { cell.hidden = !shown[i]; });
    if (row.parentElement === table.tHead) continue;
    const cells = [...row.cells].filter((cell, i) => i && shown[i]);
    for (const cell of cells) cell.classList.toggle("hit", ask.status !== "" && cell.dataset.s === ask.status);
    const has = cells.some(cell => (ask.status ? cell.dataset.s === ask.status : cell.hasChildNodes()));
    row.hidden = !has || !(titled || says(row, ask.text));
    count += !row.hidden;
  }
  article.hidden = !count || !ask.papers.includes(article.dataset.paper);
  return article.hidden ? 0 : count;
}

function filterClaim(row, ask) {
  row.hidden = !ask.papers.includes(row.dataset.paper) || (ask.status && row.dataset.s !== ask.status) || !says(row, ask.text);
  return !row.hidden;
}

function filter(form) {
  const ask = wanted(form), root = byId(form.dataset.for);
  if (root.tBodies) {
    const kept = all("tbody > tr", root).filter(row => filterClaim(row, ask)).length;
    form.querySelector("output").textContent = `${kept} claims`;
  } else {
    const rows = all("article", root).map(article => filterTable(article, ask)).filter(Boolean);
    form.querySelector("output").textContent = `${rows.length} tables, ${rows.reduce((a, b) => a + b, 0)} rows`;
  }
}
for (const form of all(".filters")) {
  form.addEventListener("submit", event => event.preventDefault());
  form.addEventListener("input", () => filter(form));
  form.addEventListener("reset", () => setTimeout(() => filter(form)));
}

// --- Details of a cell; one cell of a table is in the order of the Tab key, arrow keys move from there
const card = byId("card");

function runLinks(names, task) {
  return names.split(" ").flatMap((name, i) => {
    const id = [task, "lm", "nmt"].map(part => `run-${part}-${name}`).find(byId);
    const link = document.createElement(id ? "a" : "span");
    if (id) link.href = `#${id}`;
    link.textContent = name;
    return i ? [", ", link] : [link];
  });
}

function openCard(button) {
  const cell = button.parentElement, table = cell.closest("table"), told = button.dataset;
  const head = table.tHead.rows[0].cells[cell.cellIndex], text = part => button.querySelector(part)?.textContent;
  const lines = [
    ["row", cell.parentElement.cells[0].textContent], ["column", head.textContent.replace(/ [↑↓]$/, "")], ["metric", head.title], ["status", cell.dataset.s],
    ["ours", text(".o")], ["spread", text(".e")], ["printed", text(".p")?.slice(1, -1)], ["ours less printed", told.delta],
    ["runs", told.runs && runLinks(told.runs, cell.closest("article").dataset.task)], ["reason", told.reason], ["remark", told.note],
  ];
  const list = document.createElement("dl");
  for (const [name, what] of lines.filter(([, what]) => what)) {
    const term = document.createElement("dt"), told = document.createElement("dd");
    term.textContent = name;
    told.append(...[what].flat());
    list.append(term, told);
  }
  card.replaceChildren(list);
  card.showPopover();
  const at = button.getBoundingClientRect(), size = card.getBoundingClientRect();
  const below = at.bottom + 4 + size.height < innerHeight;
  card.style.top = `${Math.max(4, below ? at.bottom + 4 : at.top - size.height - 4)}px`;
  card.style.left = `${Math.max(4, Math.min(at.left, innerWidth - size.width - 8))}px`;
}

function neighbour(button, key) {
  const cell = button.parentElement, rows = all("tbody > tr:not([hidden])", cell.closest("table"));
  const [down, right] = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] }[key] ?? [0, 0];
  let [i, j] = [rows.indexOf(cell.parentElement) + down, cell.cellIndex + right];
  for (; (down || right) && rows[i]?.cells[j]; i += down, j += right) {
    const found = rows[i].cells[j].querySelector("button");
    if (found && !rows[i].cells[j].hidden) return found;
  }
}

for (const table of all(".grid")) {
  const first = table.querySelector("td button");
  if (first) first.tabIndex = 0;
  table.addEventListener("keydown", event => {
    const to = event.target.closest("td button") && neighbour(event.target, event.key);
    if (to) { event.preventDefault(); to.focus(); }
  });
  table.addEventListener("focusin", event => {
    if (!event.target.matches("td button")) return;
    for (const other of all("td button[tabindex='0']", table)) other.tabIndex = -1;
    event.target.tabIndex = 0;
  });
  table.addEventListener("click", event => {
    const button = event.target.closest("td button");
    if (button) openCard(button);
  });
}
card.addEventListener("click", event => { if (event.target.closest("a")) card.hidePopover(); });
addEventListener("scroll", () => card.matches(":popover-open") && card.hidePopover(), { passive: true });

// --- Figures
const zoom = byId("zoom");
for (const button of all("button.zoom")) {
  button.addEventListener("click", () => {
    const small = button.querySelector("img"), large = zoom.querySelector("img");
    [large.src, large.alt] = [small.src, small.alt];
    zoom.querySelector("p").textContent = button.parentElement.querySelector("figcaption").firstElementChild.textContent;
    zoom.showModal();
  });
}
zoom.addEventListener("click", event => { if (event.target === zoom) zoom.close(); });

// --- Contents: closed at first on narrow screens; a link into something folded or filtered away shows it
const narrow = matchMedia("(max-width: 69.99rem)");
const fold = () => { byId("contents").open = !narrow.matches; };
narrow.addEventListener("change", fold);
fold();

function unfold() {
  const target = byId(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  const form = target.closest("[hidden]") && all(".filters").find(one => byId(one.dataset.for).contains(target));
  if (form) { form.reset(); filter(form); }
  const folded = target.matches("tr, details") ? [target, ...all("details", target).slice(0, target.matches("tr") ? 1 : 0)] : [];
  for (const part of folded) if (part.matches("details")) part.open = true;
  for (let part = target.parentElement.closest("details"); part; part = part.parentElement.closest("details")) part.open = true;
  target.scrollIntoView();
}
addEventListener("hashchange", unfold);
unfold();
for (const link of all("#contents li a")) link.addEventListener("click", () => { if (narrow.matches) byId("contents").open = false; });

const current = new IntersectionObserver(entries => {
  for (const entry of entries.filter(one => one.isIntersecting)) {
    for (const link of all("#contents [aria-current]")) link.removeAttribute("aria-current");
    const here = [entry.target, entry.target.closest("section")].map(part => `#${part?.id}`);
    for (const link of all("#contents a")) if (here.includes(link.hash)) link.ariaCurrent = "true";
  }
}, { rootMargin: "-10% 0px -80% 0px" });
for (const part of all("main > [id], article")) current.observe(part);
