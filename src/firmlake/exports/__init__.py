"""The published generation leaves the house: as files in a folder or an object store, whole or as what changed."""
