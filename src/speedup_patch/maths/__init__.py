"""Pure functions of arrays, named after the paper; nothing here imports the rest of the package."""
