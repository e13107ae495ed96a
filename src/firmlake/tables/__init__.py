"""Turn landed answers into typed tables with pure functions, exact to the cent."""
