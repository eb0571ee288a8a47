"""How the API reference shows a value: as an attribute with a layout, which is what a reader of a trace sees.

In the source a value is a decorated function. The reference is made by reading the source without running it, so it
takes one for a method until it is told.
"""

from __future__ import annotations

from typing import Any

import griffe

DECORATORS = ("value", "pattern_value")


class Values(griffe.Extension):
    """Turns decorated functions into attributes, and code announced by two colons into a plain block."""

    def on_class_members(self, *, cls: griffe.Class, **_: Any) -> None:
        """Replace the values of a class that has just been read."""
        for name, member in list(cls.members.items()):
            if isinstance(member, griffe.Function) and _is_value(member):
                shown = griffe.Attribute(
                    name,
                    lineno=member.lineno,
                    endlineno=member.endlineno,
                    annotation=member.returns,
                    docstring=member.docstring,
                    parent=cls,
                )
                shown.labels.add("value")
                cls.members[name] = shown

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Markdown knows a code block by its indentation alone."""
        if obj.docstring is not None:
            obj.docstring.value = obj.docstring.value.replace("::\n", ":\n")


def _is_value(member: griffe.Function) -> bool:
    return any(decorator.callable_path.rpartition(".")[2] in DECORATORS for decorator in member.decorators)
