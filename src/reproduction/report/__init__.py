"""Tables, figures, pages and the diff of reports, from declarations and evidence. `build.write` writes all reports."""
