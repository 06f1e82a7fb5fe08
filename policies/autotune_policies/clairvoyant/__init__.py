"""Bounds: policies that know the future, to measure the others against."""
