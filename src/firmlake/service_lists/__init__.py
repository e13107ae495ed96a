"""The second pipeline: read the service's own lists into the warehouse, and add contacts to static lists."""
