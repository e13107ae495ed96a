"""The second pipeline: the service's own lists, read into the warehouse, and contacts added to static ones."""
