"""Templates of pages in docs/, apart from those of the reports, so that no stage runs again when they change."""
