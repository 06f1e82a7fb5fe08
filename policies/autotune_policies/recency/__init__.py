"""Policies that know when a block was used or came, and little else."""
