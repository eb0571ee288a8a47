"""The command line: ``belvedere support``, ``verify``, ``families``, ``demo`` and ``explore``."""

from belvedere.cli.app import app

__all__ = ["app"]
