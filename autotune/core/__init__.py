"""Vocabulary of the project: what every other part is written in."""
