"""The page of an online run: ``page``, its figures in ``facts``, its plots in ``timeline`` and ``model``."""
