"""The allowance: how many requests may be sent, shared by the processes of one key."""
