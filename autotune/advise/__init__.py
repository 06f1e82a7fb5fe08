"""Verdicts on policies: whether one keeps its promise."""
