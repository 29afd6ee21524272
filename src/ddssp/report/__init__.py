"""The report of a release: one HTML page with an explorer in it."""
