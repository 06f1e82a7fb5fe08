"""The rank rule, the form of the economics that runs in an engine."""
