"""The service: its contract, the client, the allowance and credits."""
