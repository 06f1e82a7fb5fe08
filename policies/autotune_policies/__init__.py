"""Cache policies: baselines by family and the rank rule, plain and compiled."""
