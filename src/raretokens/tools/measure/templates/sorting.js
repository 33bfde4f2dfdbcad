// --- Sorting: ascending, descending, then the order of the paper again. Cells without a value stand last.
const paperOrder = new Map(all(".sortable tbody").map(body => [body, [...body.rows]]));
const NEXT_ORDER = { none: "ascending", ascending: "descending", descending: "none" };

function sortValue(cell, part) {
  if (cell.dataset.v !== undefined) return cell.dataset.v;
  const number = cell.querySelector(part);
  if (number) return number.textContent.replace(/^\((.*?)[†‡]?\)$/, "$1");
  return cell.querySelector("button") ? "" : cell.textContent.trim();
}

function columnValues(rows, column) {
  const hasOurs = rows.some(row => row.cells[column].querySelector(".o"));
  return new Map(rows.map(row => [row, sortValue(row.cells[column], hasOurs ? ".o" : ".p")]));
}

function comparison(values) {
  const plain = value => value.replaceAll(",", "");
  const areNumbers = values.filter(value => value !== "").every(value => !Number.isNaN(Number(plain(value))));
  return areNumbers ? (a, b) => plain(a) - plain(b) : (a, b) => a.localeCompare(b);
}

function sortedRows(rows, column, order) {
  const values = columnValues(rows, column), compare = comparison([...values.values()]);
  const sign = order === "ascending" ? 1 : -1, isEmpty = row => values.get(row) === "";
  return [...rows].sort((a, b) => isEmpty(a) - isEmpty(b) || sign * compare(values.get(a), values.get(b)));
}

function sortBy(header) {
  const body = header.closest("table").tBodies[0], order = NEXT_ORDER[header.ariaSort], rows = paperOrder.get(body);
  for (const other of header.parentElement.cells) other.ariaSort = "none";
  header.ariaSort = order;
  body.append(...(order === "none" ? rows : sortedRows(rows, header.cellIndex, order)));
}
for (const button of all(".sortable thead button")) button.addEventListener("click", () => sortBy(button.parentElement));
