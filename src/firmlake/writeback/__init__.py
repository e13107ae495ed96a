"""Writing back: contacts go into static service lists, by a plan that a person can read before anything is sent."""
