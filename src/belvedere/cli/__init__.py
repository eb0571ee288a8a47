"""The command line: ``belvedere support``, ``belvedere families``, ``belvedere demo``, ``belvedere explore``."""

from belvedere.cli.app import app

__all__ = ["app"]
