"""A choice between two envoys by what a module has, for blocks whose parts share a name and differ in kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from belvedere.components.standard import Standard

__all__ = ["Having"]


@dataclass(frozen=True)
class Having:
    """In an ``ENVOYS`` table: one envoy for a module that has a part, another for one that has not.

    ``Having("experts", Mixture, Mlp)`` serves the ``mlp`` of a stack whose first blocks are dense. The envoy is chosen
    for each module as it is wrapped, and no modeling file is imported to name a class.

    Args:
        part: The part's native name.
        envoy: The envoy of a module that has it.
        otherwise: The envoy of one that has not.
    """

    part: str
    envoy: type[Standard]
    otherwise: type[Standard]

    def __call__(self, module: Any, **kwargs: Any) -> Standard:
        """The module's envoy, as nnsight asks a class for it."""
        chosen = self.envoy if self.part in module._modules else self.otherwise
        return chosen(module, **kwargs)
