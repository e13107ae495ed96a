"""Exports: the newest generation as files in a folder or an object store, whole or as changes; lists written back."""
