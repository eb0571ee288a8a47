"""The root's own question whether what the documentation says of every checkpoint holds on this one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from belvedere.verifying import Report

__all__ = ["Contract"]


class Contract:
    """What a `belvedere.StandardizedTransformer` says of itself when it is run."""

    def verify(self, data: Any = None, *, progress: bool | None = None, **keywords: Any) -> Report:
        """Run the contract on this very checkpoint: each clause, whether it holds, and where it does not.

        ::

            report = model.verify()
            assert report.passed, report.failed

        Values are compared with plain forwards that PyTorch hooks watch; no second copy of the model is made. It runs
        in evaluation mode and without gradients, and leaves neither hooks nor another mode behind.

        Args:
            data: What `trace` takes: a prompt, chat messages, or an encoding; by default a drawn picture and a short
                question, through the model's own processor.
            progress: Whether to show a bar; by default where someone is watching.
            **keywords: What `trace` takes by keyword, ``images=`` among them.

        Returns:
            A `belvedere.verifying.Report`, with an outcome for each clause.

        Raises:
            InputError: The model has no weights, cannot run this input, or has no processor to make one with.
        """
        from belvedere.verifying import verify

        model: Any = self
        return verify(model, data, progress=progress, **keywords)
