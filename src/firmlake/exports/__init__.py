"""Exports: write the newest generation, or its changes, to a folder or an object store, and write lists back."""
