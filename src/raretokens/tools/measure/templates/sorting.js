// Sort a table by a column: ascending, descending, then in the first order again. Cells without a value stand last.
"use strict";
const bodies = document.querySelectorAll(".sortable tbody");
const firstOrder = new Map([...bodies].map(body => [body, [...body.rows]]));
const NEXT_ORDER = { none: "ascending", ascending: "descending", descending: "none" };

function comparison(values) {
  const plain = value => value.replaceAll(",", "");
  const areNumbers = values.filter(value => value !== "").every(value => !Number.isNaN(Number(plain(value))));
  return areNumbers ? (a, b) => plain(a) - plain(b) : (a, b) => a.localeCompare(b);
}

function sortedRows(rows, column, order) {
  const values = new Map(rows.map(row => [row, row.cells[column].textContent.trim()]));
  const compare = comparison([...values.values()]);
  const sign = order === "ascending" ? 1 : -1, isEmpty = row => values.get(row) === "";
  return [...rows].sort((a, b) => isEmpty(a) - isEmpty(b) || sign * compare(values.get(a), values.get(b)));
}

function sortBy(header) {
  const body = header.closest("table").tBodies[0], order = NEXT_ORDER[header.ariaSort], rows = firstOrder.get(body);
  for (const other of header.parentElement.cells) other.ariaSort = "none";
  header.ariaSort = order;
  body.append(...(order === "none" ? rows : sortedRows(rows, header.cellIndex, order)));
}
for (const button of document.querySelectorAll(".sortable thead button")) {
  button.addEventListener("click", () => sortBy(button.parentElement));
}
