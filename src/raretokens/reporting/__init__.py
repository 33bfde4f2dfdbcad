"""From score files and declarations to tables, figures, claims and pages; `report.write` makes them all.

cells/         a table's cells: the printed number, ours, and how they compare
tables/        cells as CSV, Markdown and LaTeX
figures/       points of runs, and pictures of them
page/          everything as one page for a browser
diff/          the reports beside those of a git revision
"""
