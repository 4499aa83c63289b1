"""One file per subcommand of ``sup``: parses nothing, calls the stages, prints what they found."""
