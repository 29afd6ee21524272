"""Regressions from a release: what an analyst reads out of it."""
