// Tables by DataTables and charts by Vega. Both libraries are loaded on the pages that use them.
"use strict";

const DARK = matchMedia("(prefers-color-scheme: dark)");
const PAGE = 50;

function isDark() {
  const theme = document.body.dataset.theme;
  return theme === "dark" || (theme !== "light" && DARK.matches);
}

/** Open the part of the page that the address names, such as a claim or a run. */
function openTarget() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const details = target?.closest("details") ?? target?.nextElementSibling;
  if (!details?.matches("details")) return;
  details.open = true;
  target.scrollIntoView();
}

function tableOptions(table) {
  const kind = table.dataset.table;
  const layout = { topStart: null, topEnd: null, bottomStart: null, bottomEnd: null };
  if (kind !== "plain") Object.assign(layout, { topStart: "search", topEnd: "info", bottomEnd: "paging" });
  if (kind === "filtered" && table.tBodies[0].rows.length > 7) { // filters of a short table would be empty
    const columns = table.dataset.panes.split(" ").map(Number);
    layout.top1 = { searchPanes: { columns, cascadePanes: true, controls: false, layout: `columns-${columns.length}` } };
  }
  return { layout, order: [], paging: kind !== "plain", pageLength: PAGE, autoWidth: false };
}

async function enhanceTables() {
  const tables = [...document.querySelectorAll("table[data-table]")];
  if (!tables.length) return;
  // A browser imports no module from a file, but from a blob that holds the same text.
  const source = new Blob([window.dataTablesSource], { type: "text/javascript" });
  const { default: DataTable } = await import(URL.createObjectURL(source));
  const made = new Map(tables.map((table) => [table, new DataTable(table, tableOptions(table))]));
  const sources = document.querySelector("#sources table");
  document.querySelector("table.grid")?.addEventListener("click", (event) => {
    const { row, column } = event.target.closest("a.cell")?.dataset ?? {};
    if (!row || !sources) return;
    event.preventDefault();
    const found = made.get(sources).search("");
    found.column(0).search(row, { exact: true }).column(1).search(column, { exact: true }).draw();
    const place = document.getElementById("sources");
    place.scrollIntoView({ behavior: "smooth" });
    place.focus({ preventScroll: true });
  });
  addEventListener("beforeprint", () => made.forEach((table) => table.page.len(-1).draw()));
  addEventListener("afterprint", () => made.forEach((table) => table.page.len(PAGE).draw()));
}

function drawChart(chart) {
  const spec = JSON.parse(chart.querySelector("script").textContent);
  const ink = getComputedStyle(document.body).color;
  const lines = { domainColor: ink, gridColor: ink, gridOpacity: 0.15, tickColor: ink };
  const words = { labelColor: ink, titleColor: ink };
  const config = { axis: { ...lines, ...words }, legend: words, title: { color: ink }, view: { stroke: null }, font: "inherit" };
  const place = chart.querySelector(".plot") ?? chart.appendChild(Object.assign(document.createElement("div"), { className: "plot" }));
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
