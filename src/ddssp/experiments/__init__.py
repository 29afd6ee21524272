"""Experiments: datasets, baselines, protocol, figures. Touches rows; nothing in the product imports it but `reproduce`."""
