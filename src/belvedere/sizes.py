"""The text model's sizes, known without a run."""

from __future__ import annotations

from typing import Any

__all__ = ["TextSizes"]


class TextSizes:
    """Sizes that the text model's config gives.

    Attributes:
        layers: The text model's blocks.
    """

    layers: Any
    _module: Any

    @property
    def config(self) -> Any:
        """The text model's config."""
        return self._module.config.get_text_config()

    @property
    def num_layers(self) -> int:
        """How many text blocks there are."""
        return len(self.layers)

    @property
    def hidden_size(self) -> int:
        """The width of the text stream."""
        return int(self.config.hidden_size)

    @property
    def num_heads(self) -> int:
        """How many query heads a text attention has."""
        return int(self.config.num_attention_heads)

    @property
    def num_kv_heads(self) -> int:
        """How many key and value heads a text attention has."""
        return int(getattr(self.config, "num_key_value_heads", None) or self.num_heads)

    @property
    def head_dim(self) -> int:
        """The width of one head of a text attention."""
        return int(getattr(self.config, "head_dim", None) or self.hidden_size // self.num_heads)

    @property
    def intermediate_size(self) -> int:
        """The inner width of a text MLP."""
        config = self.config
        # GPT-2's own name for it may be empty, which stands for four times the width.
        return int(getattr(config, "intermediate_size", None) or config.n_inner or 4 * self.hidden_size)

    @property
    def vocab_size(self) -> int:
        """How many tokens the unembedding scores."""
        return int(self.config.vocab_size)
