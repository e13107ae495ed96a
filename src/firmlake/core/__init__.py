"""What every room stands on: companies, errors, files, settings, and a run on disk."""
