// Tables by DataTables and charts by Vega. Both libraries are loaded on the pages that use them.
"use strict";

const DARK = matchMedia("(prefers-color-scheme: dark)");
const PAGE = 50;
const VERDICT = /^(reproduced|contradicted|inconclusive|not testable|not run)/;
const FILTERS = ["verdict", "counted", "paper", "metric", "task", "title"];

function isDark() {
  const theme = document.body.dataset.theme;
  return theme === "dark" || (theme !== "light" && DARK.matches);
}

/** Open the part of the page that the address names, such as a claim or a run. */
function openTarget() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const details = target?.closest("details");
  if (!details) return;
  details.open = true;
  target.scrollIntoView();
}

/** Options of a table: filters of the columns that FILTERS names, pages for long tables, and cells ordered by their first number. */
function tableOptions(table, kind) {
  const layout = { topStart: null, topEnd: null, bottomStart: null, bottomEnd: null };
  if (kind !== "grid") Object.assign(layout, { topStart: "search", topEnd: "info", bottomEnd: "paging" });
  const heads = [...table.tHead.rows[0].cells].map((cell) => (cell.textContent = cell.textContent.trim()));
  const columns = [...heads.keys()].filter((column) => FILTERS.includes(heads[column]));
  if (kind === "filtered" && columns.length && table.tBodies[0].rows.length > 7) { // filters of a short table would be empty
    const dtOpts = { order: [[1, "desc"]] }; // the most frequent value first
    layout.top1 = { searchPanes: { columns, cascadePanes: true, controls: false, dtOpts, layout: `columns-${columns.length}` } };
  }
  const render = (data, type) => (type === "sort" || type === "type" ? firstNumber(data) : data);
  const columnDefs = kind === "grid" ? [{ targets: heads.map((_, column) => column).slice(1), render }] : [];
  return { layout, columnDefs, order: [], paging: kind !== "grid", pageLength: PAGE, autoWidth: false };
}

/** Return the first number of a cell, which may be in tags. Cells without a number are the largest. */
function firstNumber(html) {
  const found = html.replace(/<[^>]*>|,(?=\d{3})/g, "").split("(")[0].match(/-?\d+(\.\d+)?(e-?\d+)?/);
  return found ? Number(found[0]) : Infinity;
}

async function enhanceTables() {
  const tables = [...document.querySelectorAll(".filtered table, .paged table, .grid table")];
  for (const cell of document.querySelectorAll(".filtered td, #claims li")) {
    const verdict = cell.textContent.trim().toLowerCase().match(VERDICT);
    if (verdict) Object.assign(cell.dataset, { verdict: verdict[0] });
  }
  if (!tables.length) return;
  // A browser imports no module from a file, but from a blob that holds the same text.
  const source = new Blob([window.dataTablesSource], { type: "text/javascript" });
  const { default: DataTable } = await import(URL.createObjectURL(source));
  const kind = (table) => table.closest(".filtered, .paged, .grid").classList[0];
  const made = new Map(tables.map((table) => [table, new DataTable(table, tableOptions(table, kind(table)))]));
  linkSources(made);
  addEventListener("beforeprint", () => made.forEach((table) => table.page.len(-1).draw()));
  addEventListener("afterprint", () => made.forEach((table) => table.page.len(PAGE).draw()));
}

/** Show the sources of a cell of the grid when it is selected. Row titles of the grid may have an addition in parentheses. */
function linkSources(made) {
  const grid = document.querySelector(".grid table"), place = document.querySelector("#sources-of-each-cell");
  const sources = made.get(place?.querySelector(".paged table"));
  if (!grid || !sources) return;
  const show = (cell) => {
    const title = cell.parentElement.cells[0].textContent.trim();
    const column = grid.tHead.rows[0].cells[cell.cellIndex].textContent.trim();
    const found = sources.search("");
    found.column(0).search((text) => title === text || title.startsWith(`${text} (`));
    found.column(1).search(column, { exact: true }).draw();
    place.scrollIntoView({ behavior: "smooth" });
  };
  for (const cell of grid.querySelectorAll("td:not(:first-child)")) {
    if (!cell.textContent.trim()) continue;
    cell.tabIndex = 0;
    cell.addEventListener("click", () => show(cell));
    cell.addEventListener("keydown", (event) => event.key === "Enter" && show(cell));
  }
}

function drawChart(chart) {
  const spec = JSON.parse(chart.querySelector("script").textContent);
  const ink = getComputedStyle(document.body).color;
  const lines = { domainColor: ink, gridColor: ink, gridOpacity: 0.15, tickColor: ink };
  const words = { labelColor: ink, titleColor: ink };
  const place = chart.querySelector(".plot") ?? chart.appendChild(Object.assign(document.createElement("div"), { className: "plot" }));
  const legend = { ...words, ...(place.clientWidth < 600 && { orient: "bottom" }) }; // beside a narrow chart it takes half of the width
  const config = { axis: { ...lines, ...words }, legend, title: { color: ink }, view: { stroke: null }, font: "inherit" };
  window.vegaEmbed(place, spec, { config, renderer: "svg", actions: { export: true, source: false, compiled: false, editor: false } });
}

/** Draw each chart when it is first seen, and again when the colours change. */
function drawCharts() {
  const drawn = new Set();
  const observer = new IntersectionObserver((entries) => {
    for (const entry of entries.filter((one) => one.isIntersecting && !drawn.has(one.target))) {
      drawn.add(entry.target);
      drawChart(entry.target);
    }
  });
  document.querySelectorAll(".chart").forEach((chart) => observer.observe(chart));
  return () => drawn.forEach(drawChart);
}

/** Mark figures that are wider than the screen, because a cut figure looks complete. */
function markWideFigures() {
  for (const one of document.querySelectorAll('[role="main"] p:has(> img)'))
    one.classList.toggle("wide", one.scrollWidth > one.clientWidth + 4);
}

addEventListener("load", markWideFigures);
addEventListener("resize", markWideFigures);
document.addEventListener("DOMContentLoaded", () => {
  const redraw = drawCharts();
  const colours = () => document.documentElement.classList.toggle("dark", isDark());
  const changed = () => (colours(), redraw());
  new MutationObserver(changed).observe(document.body, { attributeFilter: ["data-theme"] });
  DARK.addEventListener("change", changed);
  colours();
  enhanceTables();
  addEventListener("hashchange", openTarget);
  openTarget();
  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((one) => (one.open = true)));
});
