"""Landed answers become typed tables: pure functions, exact to the cent."""
