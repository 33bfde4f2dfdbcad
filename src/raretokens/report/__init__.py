"""From declarations and evidence to tables, figures, pages and the diff of reports; `build.write` makes them all."""
