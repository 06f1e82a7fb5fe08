"""What an engine's plug-in tells about accesses and transfers: the format, and reading it from files.

The plug-in writes it; collectors and trace readers read it. ``wire`` names the format's values, ``reading`` turns
frames into records, ``segments`` finds the frames in a folder, ``following`` reads on where such a folder grows.
``events`` has what stock engines tell instead.
"""
