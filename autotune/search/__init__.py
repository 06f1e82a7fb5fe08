"""Search for the best setting of a policy on a simulator of the engine."""
