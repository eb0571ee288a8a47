"""The root: a checkpoint of any family, under one set of names and values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from nnsight.modeling.tp import TPFragments
from nnsight.modeling.transformers import TransformersModel
from torch import Tensor

from belvedere import families, loading
from belvedere.batching import ImageBatcher
from belvedere.components import NoVision, Standard
from belvedere.components.gathering import block_support, stack_support
from belvedere.components.listing import Support
from belvedere.components.scatter import RootScatter
from belvedere.components.summary import of_model
from belvedere.components.vision import root_input
from belvedere.contract import Contract
from belvedere.descriptors import KeptValue, value
from belvedere.errors import InputError, Unavailable
from belvedere.families.facts import ROOT_SCATTER
from belvedere.families.mounts import mounts
from belvedere.geometry import PatchLayout
from belvedere.inputs import Invoke, encode, show
from belvedere.interleaving import Interleaver
from belvedere.interventions import Interventions
from belvedere.kernels import hold_back_vain_advice
from belvedere.layouts import AttentionMask, Logits, NextTokenProbs, Residual, TokenIds
from belvedere.locating import locate, locate_videos
from belvedere.pictures import Pictures, count_pictures
from belvedere.select import Argument, LogitsPart, Positions
from belvedere.sizes import TextSizes

__all__ = ["StandardizedTransformer"]


class StandardizedTransformer(Interventions, Contract, TextSizes, Standard, TransformersModel):
    """A transformers checkpoint whose parts and values have standard names.

    The checkpoint stays the original transformers module; nothing is re-implemented. Values are read and written inside
    ``with model.trace(...):``, in the order in which the model computes them::

        model = StandardizedTransformer("Qwen/Qwen3.5-4B", dispatch=True)
        with model.trace(prompt, images=[image]):
            mask = model.vision.image_token_mask.save()
            model.layers[12].layer_output[mask] = 0
            logits = model.logits.save()

    Args:
        checkpoint: A Hub id, a local folder, or a module in memory.
        task: ``"image-text-to-text"`` or ``"text-generation"``; by default what the config is made for. A wrapper
            loaded for text generation is what transformers loads for it, and its tower's values say why no picture
            reaches them.
        family: Known model types to use in place of the config's, such as ``{"text": "llama"}``.
        rename: Further names for modules, as in nnsight; they win over the family's.
        envoys: Further envoy classes for modules, as in nnsight; they win over the family's.
        processor: The processor (or tokenizer), where the checkpoint does not bring it. Without one a model takes
            encodings only.
        tokenizer_kwargs: Arguments for loading the processor or tokenizer.
        **kwargs: Anything else that nnsight's ``TransformersModel`` or ``from_pretrained`` takes: ``dispatch=True``
            loads the weights at once, ``dtype``, ``device_map``, ``attn_implementation``, ``revision``, ...

    Raises:
        UnsupportedFamily: A part of the checkpoint is of an unknown type; raised before any weight loads.
        FileNotFoundError: There is no such checkpoint.
    """

    AXES = {
        "hidden": "hidden_size",
        "vocab": "vocab_size",
        "heads": "num_heads",
        "kv_heads": "num_kv_heads",
        "head_dim": "head_dim",
    }
    _batcher_class = ImageBatcher
    processor: Any
    tokenizer: Any

    def __init__(
        self,
        checkpoint: Any,
        *,
        task: str | None = None,
        family: Mapping[str, str] | None = None,
        rename: Mapping[Any, Any] | None = None,
        envoys: Mapping[Any, Any] | None = None,
        processor: Any = None,
        tokenizer_kwargs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        loading.refuse_parts(family, kwargs)
        hold_back_vain_advice()
        self.source_config = loading.read_config(checkpoint, kwargs)
        self.family = families.compose(self.source_config, **(family or {}))
        self.task = loading.choose_task(self.family, task)
        if processor is None:
            processor = loading.load_preprocessor(checkpoint, self.task, kwargs, dict(tokenizer_kwargs or {}))
        self.text_only = self.family.wrapper is not None and loading.is_text_alone(self.source_config, self.task)
        if isinstance(checkpoint, torch.nn.Module):
            kwargs.pop("config", None)
        else:
            loading.refuse_text_only(self.source_config, self.task)
        names, classes = mounts(self.family, self.text_only)
        super().__init__(
            checkpoint if isinstance(checkpoint, torch.nn.Module) else str(checkpoint),
            task=self.task,
            rename={**names, **(rename or {})},
            envoys={**(envoys or {}), **classes},
            interleaver=Interleaver(fragments=TPFragments()),
            **{loading.slot(processor): processor},
            **kwargs,
        )
        if "vision" not in vars(self):
            self.vision = NoVision(self)
        towers: dict[str, Any] = {} if isinstance(self.vision, NoVision) else {"tower": self.vision}
        loading.refuse_misfit(self.family, {"text": self, **towers})
        self._configure()

    def _update(self, module: Any) -> None:
        super()._update(module)
        self._configure()

    def _configure(self) -> None:
        """Set what the wrapper's entry says that the forward needs in the config."""
        if self.family.wrapper is not None and not self.text_only:
            for name, held in self.family.facts.config.items():
                setattr(self._module.config, name, held)

    @classmethod
    def from_config(cls, config: Any, **kwargs: Any) -> StandardizedTransformer:
        """A model of this config without weights, to ask what it supports; it cannot run.

        Args:
            config: A transformers config, or a path or Hub id to read one from.
            **kwargs: As for the class.
        """
        import transformers

        config = loading.read_config(config, kwargs)
        family = families.compose(config, **(kwargs.get("family") or {}))
        auto = getattr(transformers, loading.auto_class(loading.choose_task(family, kwargs.get("task"))))
        with torch.device("meta"):
            module = auto.from_config(config)
        # A text-only load keeps the text config alone; the whole one says what was left out.
        return cls(module, config=config, **kwargs)

    # Loading

    def _load_meta(self, repo_id: str, *args: Any, **kwargs: Any) -> torch.nn.Module:
        if self._has_preprocessor():
            module: torch.nn.Module = super()._load_meta(repo_id, *args, **kwargs)
            return module
        return self._bare(self._auto().from_config(self.source_config))

    def _load(self, repo_id: str, *args: Any, **kwargs: Any) -> torch.nn.Module:
        if self._has_preprocessor():
            module: torch.nn.Module = super()._load(repo_id, *args, **kwargs)
            return module
        return self._bare(super(TransformersModel, self)._load(repo_id, *args, **kwargs))

    def _wrap(self, module: torch.nn.Module, *args: Any, **kwargs: Any) -> torch.nn.Module:
        if self._has_preprocessor():
            wrapped: torch.nn.Module = super()._wrap(module, *args, **kwargs)
            return wrapped
        return self._bare(module)

    def _bare(self, module: torch.nn.Module) -> torch.nn.Module:
        self.pipeline = loading.NoPipeline(module, self.task)
        return module

    def _auto(self) -> Any:
        import transformers

        return getattr(transformers, loading.auto_class(self.task))

    def _has_preprocessor(self) -> bool:
        return self.processor is not None or self.tokenizer is not None

    def _sync(self) -> None:
        super()._sync()
        if self.tokenizer is None and self.processor is not None:
            # A multimodal pipeline keeps its tokenizer inside the processor.
            self.tokenizer = getattr(self.processor, "tokenizer", None)
            self._configure_tokenizer()

    def __repr__(self) -> str:
        """The model on one screen; `tree` is the whole of it."""
        return of_model(self)

    # What the root knows of its parts

    @property
    def name(self) -> str:
        """Empty: standard paths start here."""
        return ""

    @property
    def scatter(self) -> Any:
        """The envoy whose forward writes image features in; ``None`` where no operation is known."""
        if self.family.tower is None or self.text_only or self.family.facts.scatter is None:
            return None
        if self.family.facts.inner == ROOT_SCATTER:
            return RootScatter(self, self.family.facts.scatter)
        return self.get(self.family.facts.inner)

    def _wanted(self) -> tuple[str, ...]:
        """`operations`, and those by which the root's own forward writes image features in, where it does so."""
        scatter = self.scatter
        return (*super()._wanted(), *(scatter.kind.operations() if isinstance(scatter, RootScatter) else ()))

    def placeholder(self, modality: str) -> int | None:
        """The token id that stands for an image or a video in a prompt, if the config has one."""
        if self.family.tower is None:
            return None
        name = self.family.facts.image_token if modality == "image" else self.family.facts.video_token
        return getattr(self.source_config, name, None) if name else None

    def pictures(self, encoding: Mapping[str, Any]) -> Pictures:
        """How many patches and image tokens each picture of an encoding has."""
        return Pictures() if isinstance(self.vision, NoVision) else count_pictures(self.vision, encoding)

    def show(self, pictures: list[Any]) -> dict[str, Any]:
        """An encoding of pictures without a text, by the model's own processor."""
        return show(self, pictures)

    def is_image_side(self, location: str) -> bool:
        """Whether a location's tensors are counted in pictures and patches rather than in rows of the batch."""
        if isinstance(self.vision, NoVision):
            return False
        sides = [self.vision.path, *([self.projector.path] if self.family.facts.projector else [])]
        scatter = self.scatter
        if self.family.facts.by_prompt:
            # What the text attends to has a row for each tile.
            sides.append(f"{self.get(self.family.facts.text).path}.input")
        if scatter is not None:
            operations = (name for name in (scatter.scatter, scatter.video_scatter) if name)
            sides += [f"{scatter.operation_location(name)}.input" for name in operations]
        stack = self.get(self._mounts_path())
        counted = tuple(held for name, held in stack._operations.items() if name in stack.IMAGE_OPERATIONS)
        return location.startswith(counted) or any(
            location == side or location.startswith(f"{side}.") for side in sides
        )

    # Values

    @value(root_input, kind=KeptValue, select=Argument(0, "input_ids"), description="the prompt's token ids")
    def input_ids(self, held: Tensor) -> TokenIds:
        """The token ids that the forward gets; under ``generate``, those of the step.

        Can be read at any point of the forward. An assignment must come before the model has begun.
        """
        return held

    @value(
        root_input,
        kind=partial(KeptValue, missing="it was run without an attention mask, so every token counts"),
        select=Argument(2, "attention_mask"),
        description="1 where a token is no padding",
    )
    def attention_mask(self, held: Tensor) -> AttentionMask:
        """1 where a token is no padding. Can be read at any point of the forward."""
        return held

    @value(
        root_input,
        kind=KeptValue,
        select=Positions(0, "input_ids"),
        read_only="it is the size of the input; trace another one",
        description="batch and sequence length",
    )
    def input_size(self, ids: Tensor) -> torch.Size:
        """``(batch, seq)`` of the token ids or embeddings; can be read at any point of the forward."""
        return ids.shape

    @value("embed_tokens.output", description="token embeddings, placeholders' own among them")
    def token_embeddings(self, held: Tensor) -> Residual:
        """What the embedding returns for the prompt, before image features are written over the placeholders."""
        return held

    @value("output", select=LogitsPart("logits"), description="logits, after any softcap or scale")
    def logits(self, held: Tensor) -> Logits:
        """The logits that the model returns. Under ``generate`` only those of the step's last position."""
        return held

    @value(
        "output",
        select=LogitsPart("logits"),
        read_only="it follows from the logits; write logits",
        description="probabilities of the token after the prompt",
        recomputed="the logits at each prompt's last token, by a softmax",
    )
    def next_token_probs(self, logits: Tensor) -> NextTokenProbs:
        """The softmax of the logits at each row's last token that is no padding."""
        last = self._last_positions(logits)
        return logits[torch.arange(len(logits), device=logits.device), last].softmax(-1)

    def _last_positions(self, logits: Tensor) -> Tensor:
        """The place among the logits' positions of each row's last token that is no padding."""
        entry = type(self).attention_mask
        assert isinstance(entry, KeptValue)
        kept = entry.now(self)
        mask = kept[0] if kept else None
        if not isinstance(mask, Tensor) or mask.ndim != 2 or len(mask) != len(logits):
            return torch.full((len(logits),), logits.shape[1] - 1, device=logits.device)
        # The logits may be those of the last positions only.
        mask = mask[:, -logits.shape[1] :].to(logits.device)
        if mask.shape[1] < logits.shape[1]:
            return torch.full((len(logits),), logits.shape[1] - 1, device=logits.device)
        place = torch.arange(mask.shape[1], device=mask.device)
        return torch.where(mask.any(1), (mask * place).argmax(1), mask.shape[1] - 1)

    # Methods

    def support(self, layer: int | None = None, *, notes: bool = False) -> dict[str, Any]:
        """What of this checkpoint reads, from the config alone: no weights are needed.

        Args:
            layer: One text block's values only.
            notes: Give a `Note` in place of ``None`` for a value that reads although nothing in the forward depends on
                it, such as LLaVA's last tower block.

        Returns:
            ``{value: None}`` where it reads, ``{value: reason}`` where it does not, ``{value: {block: reason}}`` where
            only some blocks do not. Names are standard paths: ``logits``, ``layers.mlp_output``,
            ``vision.image_features``,
            ``vision.layers.attention_queries``. A tower that no picture reaches has no rows. A path that is no key of
            it raises a ``KeyError`` that names the nearest.
        """
        if layer is not None and not -self.num_layers <= layer < self.num_layers:
            raise ValueError(
                f"there is no block {layer}; the text model has {self.num_layers}, 0 to {self.num_layers - 1}"
            )
        if layer is not None:
            return block_support(self.layers[layer], notes=notes)
        stack = self.get(self._mounts_path())
        own = super().support(notes=notes)
        return Support({**own, **stack_support(stack, "", notes=notes), **self.vision.support(notes=notes)})

    def layout(self, data: Any = None, *, sizes: Any = None, **keywords: Any) -> PatchLayout:
        """Where the patches and image tokens of an input are; made from its encoding, without a forward.

        ::

            layout = model.layout(prompt, images=[image])
            layout.patches[17]
            layout.tokens_in((40, 0, 80, 40))

        Args:
            data: What `trace` takes: a prompt, chat messages, or an encoding.
            sizes: Width and height of each original picture, for an encoding, which does not say them.
            **keywords: What `trace` takes by keyword, ``images=`` among them.

        Raises:
            InputError: It shows no picture, or is no input of this model; or the sizes are not its pictures'.
            Unavailable: No picture reaches this model.
        """
        given = self._encoding("vision.layout", data, keywords)
        if sizes is not None and given.sizes is not None:
            raise InputError("the pictures themselves were passed, and they say their sizes; leave out `sizes`")
        pictures = self.pictures(given.encoding)
        return locate(self.vision, given.encoding, pictures, given.sizes if sizes is None else sizes)

    def video_layout(self, data: Any = None, *, sizes: Any = None, **keywords: Any) -> PatchLayout:
        """`layout` of an input's videos, which a packed tower takes in a forward of their own.

        Args:
            data: What `trace` takes.
            sizes: Width and height of each original video, for boxes in its own pixels.
            **keywords: What `trace` takes by keyword, ``videos=`` among them.

        Raises:
            InputError: It shows no video, or this wrapper's encodings do not say the videos' grids.
            Unavailable: No picture reaches this model.
        """
        return locate_videos(self.vision, self._encoding("vision.video_layout", data, keywords).encoding, sizes)

    def _encoding(self, value: str, data: Any, keywords: Mapping[str, Any]) -> Invoke:
        """One input, encoded, with all that goes to the forward beside it."""
        if isinstance(self.vision, NoVision):
            raise Unavailable(value, str(self.vision.no_images()))
        given = encode(self, data, keywords)
        strange = [name for name, held in given.forward.items() if not isinstance(held, Tensor)]
        if strange:
            raise InputError(f"`{strange[0]}=` says nothing of where a patch is; pass an encoding made with it")
        return replace(given, encoding={**given.encoding, **given.forward})

    def _mounts_path(self) -> str:
        if self.family.wrapper is None or self.text_only:
            return str(getattr(self.family.entry("text"), "STACK", "model"))
        return self.family.facts.text
