"""The rows of the zoo, a module per kin; a row is found by standing in one of them."""

import pkgutil
from importlib import import_module

from belvedere.testing.row import Row

__all__ = ["ROWS"]

ROWS: dict[str, Row] = {}
for _module in pkgutil.iter_modules(__path__):
    ROWS |= import_module(f"{__name__}.{_module.name}").ROWS
