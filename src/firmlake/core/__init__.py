"""Foundations of every other package: companies, errors, files, settings, and a run on disk."""
