"""One module per command: ``configure(parser)``, ``run(args) -> ExitCode`` and ``EXAMPLE``. No verdicts here."""
