"""The command line: ``belvedere support``, ``belvedere verify``, ``belvedere families``, ``belvedere demo``."""

from belvedere.cli.app import app

__all__ = ["app"]
