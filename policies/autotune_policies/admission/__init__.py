"""Policies that decide who comes in rather than who leaves."""
