"""Results for people: a table for the terminal (``table``) and one self-contained HTML file (``page``)."""
