// --- Filtering
const texts = new WeakMap(); // row -> its text in small letters, with what its cells tell when they are pressed

function rowText(row) {
  if (!texts.has(row)) {
    const details = [row, ...all("button", row)].map(one => Object.values(one.dataset).join(" "));
    texts.set(row, [row.textContent, ...details].join(" ").toLowerCase());
  }
  return texts.get(row);
}

function choices(form) {
  const data = new FormData(form), get = name => data.get(name) ?? "";
  return { papers: data.getAll("paper"), metric: get("metric"), status: get("status"), text: get("text").trim().toLowerCase() };
}

// The first column names the row and always stays.
function showColumnsOf(table, metric) {
  const shown = [...table.tHead.rows[0].cells].map((head, i) => i === 0 || !metric || head.dataset.m === metric);
  for (const row of table.rows) [...row.cells].forEach((cell, i) => { cell.hidden = !shown[i]; });
}

function shownCells(row) {
  return [...row.cells].slice(1).filter(cell => !cell.hidden);
}

function markHits(table, status) {
  table.toggleAttribute("data-only", status !== "");
  const isHit = cell => status !== "" && cell.dataset.s === status;
  for (const row of table.tBodies[0].rows) for (const cell of shownCells(row)) cell.classList.toggle("hit", isHit(cell));
}

function hasCells(row, status) {
  return shownCells(row).some(cell => status ? cell.dataset.s === status : cell.hasChildNodes());
}

function hasTitle(article, text) {
  return text !== "" && article.querySelector("h3").textContent.toLowerCase().includes(text);
}

function filterTable(article, chosen) {
  const table = article.querySelector("table"), rows = [...table.tBodies[0].rows];
  showColumnsOf(table, chosen.metric);
  markHits(table, chosen.status);
  const isNamed = hasTitle(article, chosen.text);
  const isWanted = row => hasCells(row, chosen.status) && (isNamed || rowText(row).includes(chosen.text));
  for (const row of rows) row.hidden = !isWanted(row);
  const count = rows.filter(row => !row.hidden).length;
  article.hidden = !count || !chosen.papers.includes(article.dataset.paper);
  return article.hidden ? 0 : count;
}

function filterClaim(row, chosen) {
  const hasStatus = !chosen.status || row.dataset.s === chosen.status;
  row.hidden = !(chosen.papers.includes(row.dataset.paper) && hasStatus && rowText(row).includes(chosen.text));
  return !row.hidden;
}

function filterTables(root, chosen) {
  const counts = all("article", root).map(article => filterTable(article, chosen)).filter(Boolean);
  return `${counts.length} tables, ${counts.reduce((a, b) => a + b, 0)} rows`;
}

function filterClaims(root, chosen) {
  return `${all("tbody > tr", root).filter(row => filterClaim(row, chosen)).length} claims`;
}

function filter(form) {
  const root = byId(form.dataset.for), chosen = choices(form);
  form.querySelector("output").textContent = root.tBodies ? filterClaims(root, chosen) : filterTables(root, chosen);
}
for (const form of all(".filters")) {
  form.addEventListener("submit", event => event.preventDefault());
  form.addEventListener("input", () => filter(form));
  form.addEventListener("reset", () => setTimeout(() => filter(form)));
}
