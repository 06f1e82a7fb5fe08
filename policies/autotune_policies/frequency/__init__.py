"""Policies that know how often a block was used."""
