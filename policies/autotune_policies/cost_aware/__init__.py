"""Policies that weigh what a miss costs."""
