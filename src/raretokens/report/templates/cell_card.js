// --- Details of a cell; one cell of a table is in the order of the Tab key, arrow keys move from there
const card = byId("card");
const tasks = new Set(all("article").map(article => article.dataset.task));
const STEPS = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] };

function runLink(name, task) {
  const id = [task, ...tasks].map(part => `run-${part}-${name}`).find(byId);
  const link = document.createElement(id ? "a" : "span");
  if (id) link.href = `#${id}`;
  link.textContent = name;
  return link;
}

function runLinks(names, task) {
  return names.split(" ").flatMap((name, i) => i ? [", ", runLink(name, task)] : [runLink(name, task)]);
}

function cardLines(button) {
  const cell = button.parentElement, article = cell.closest("article"), { full, delta, way, reason, note, remark } = button.dataset;
  const { runs } = { ...cell.parentElement.dataset, ...button.dataset }; // the row has them where they are the same in all its cells
  const head = cell.closest("table").tHead.rows[0].cells[cell.cellIndex];
  const text = part => button.querySelector(part)?.textContent;
  return [
    ["row", cell.parentElement.cells[0].textContent], ["column", head.textContent.replace(/ [↑↓]$/, "")],
    ["metric", head.title.split("\n")[0]], ["status", cell.dataset.s], ["ours", full || text(".o")], ["spread", full ? "" : text(".e")],
    ["reported", text(".p")?.slice(1, -1)], ["ours less reported", delta],
    ["direction", { same: "as in the paper", opposite: "against print" }[way]],
    ["runs", runs && runLinks(runs, article.dataset.task)], ["reason", reason], ["remark", [note, remark].filter(Boolean).join("; ")],
  ].filter(([, content]) => content);
}

function descriptionList(lines) {
  const list = document.createElement("dl");
  for (const [name, content] of lines) {
    const term = document.createElement("dt"), description = document.createElement("dd");
    term.textContent = name;
    description.append(...[content].flat());
    list.append(term, description);
  }
  return list;
}

// Below the button, or above it where there is no room.
function placeCard(button) {
  const at = button.getBoundingClientRect(), size = card.getBoundingClientRect();
  const fits = at.bottom + 4 + size.height < innerHeight;
  card.style.top = `${Math.max(4, fits ? at.bottom + 4 : at.top - size.height - 4)}px`;
  card.style.left = `${Math.max(4, Math.min(at.left, innerWidth - size.width - 8))}px`;
}

function openCard(button) {
  card.replaceChildren(descriptionList(cardLines(button)));
  card.showPopover();
  placeCard(button);
}

// The next button in the direction of an arrow key; empty and hidden cells are passed over.
function buttonBeside(button, [down, right]) {
  const cell = button.parentElement, rows = all("tbody > tr:not([hidden])", cell.closest("table"));
  let i = rows.indexOf(cell.parentElement) + down, j = cell.cellIndex + right;
  for (; rows[i]?.cells[j]; i += down, j += right) {
    const other = rows[i].cells[j].querySelector("button");
    if (other && !rows[i].cells[j].hidden) return other;
  }
}

function moveByKey(event) {
  const step = STEPS[event.key], button = event.target.closest("td button");
  const other = step && button && buttonBeside(button, step);
  if (other) { event.preventDefault(); other.focus(); }
}

function keepInTabOrder(button) {
  for (const other of all("td button[tabindex='0']", button.closest("table"))) other.tabIndex = -1;
  button.tabIndex = 0;
}

// A cell's mark says its status to who does not see it; written here, as thousands of cells would each bear the words.
function describe(button) {
  const mark = button.querySelector(".m"), { way } = button.dataset;
  mark.setAttribute("role", "img");
  mark.ariaLabel = button.parentElement.dataset.s + (way ? `, ${way} direction` : "");
  button.tabIndex = -1;
}

for (const table of all(".grid")) {
  all("td button", table).forEach(describe);
  const first = table.querySelector("td button");
  if (first) first.tabIndex = 0;
  table.addEventListener("keydown", moveByKey);
  table.addEventListener("focusin", event => { if (event.target.matches("td button")) keepInTabOrder(event.target); });
  table.addEventListener("click", event => {
    const button = event.target.closest("td button");
    if (button) openCard(button);
  });
}
card.addEventListener("click", event => { if (event.target.closest("a")) card.hidePopover(); });
addEventListener("scroll", () => card.matches(":popover-open") && card.hidePopover(), { passive: true });
