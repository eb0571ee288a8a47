"""What a staged tower runs, found on the standardized model by its standard names."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from belvedere.components.reach import unseen
from belvedere.errors import InputError, Unavailable
from belvedere.staged import Parts, Staged
from belvedere.staged.inputs import GRID, Cut, Source

if TYPE_CHECKING:
    from belvedere.components.vision import Vision

__all__ = ["staged"]

#: What wrappers' methods call the grid of a video.
VIDEO_GRIDS = {"video_grid_thw", "video_position_ids"}
#: What configs call blocks of the tower whose streams are read beside the last one's.
TAPS = ("deepstack_visual_indexes", "intermediate_layers_indices")


def staged(vision: Vision) -> Staged:
    """The tower of a model, to run by hand; the weights are loaded where they are not yet.

    Raises:
        Unavailable: No picture reaches the tower, or it has no blocks.
        InputError: The model was built without weights.
    """
    root = vision.root
    if (reason := unseen(vision)) is not None:
        raise Unavailable("vision.staged", reason)
    if not vision.num_layers:
        raise Unavailable(
            "vision.staged",
            "this tower has no blocks to run by hand, its patches are embedded and projected; read patch_embeddings "
            "and image_features inside a trace",
        )
    root.dispatch()
    if any(held.device.type == "meta" for held in vision._module.parameters()) and not _is_offloaded(vision._module):
        raise InputError(
            "this model was built without weights, so its tower cannot run; load the checkpoint with "
            "`StandardizedTransformer(checkpoint, dispatch=True)`"
        )
    return Staged(_parts(vision))


def _is_offloaded(module: Any) -> bool:
    return any("_hf_hook" in vars(part) for part in module.modules())


def _parts(vision: Vision) -> Parts:
    root = vision.root
    return Parts(
        blocks=[block._module for name in vision.LISTS for block in getattr(vision, name)],
        source=_source(vision),
        projector=root.projector._module,
        patch_embed=vision.patch_embed._module,
        embeddings=root.embed_tokens._module,
        packed=root.family.rows.packed,
        # The root is held here: an envoy does not hold what is above it.
        reads=lambda given: _reads(vision, given.get(root.family.facts.feature_layers)),
    )


def _source(vision: Vision) -> Source:
    """The wrapper's own methods that make features of pixels, or the tower itself where there are none."""
    facts = vision.root.family.facts
    holder = vision.root.get(facts.inner)._module if facts.inner else vision.root._module
    images = getattr(holder, "get_image_features", None) or _Tower(vision._module)
    videos = getattr(holder, "get_video_features", None)
    # Where it is told no grid, the wrapper's forward still does something to what the method makes of a video.
    told = videos is not None and VIDEO_GRIDS & inspect.signature(videos).parameters.keys()
    cut = _cut(vision) if GRID in inspect.signature(images).parameters else None
    return Source(images=images, videos=videos if told else None, prepare=vision.root.show, cut=cut)


class _Tower:
    """A tower called as a wrapper's method is."""

    def __init__(self, module: Any) -> None:
        self._module = module
        parameters = [*inspect.signature(type(module).forward).parameters.values()]
        self.__signature__ = inspect.Signature(parameters[1:])

    def __call__(self, **given: Any) -> Any:
        return self._module(**given)


def _cut(vision: Vision) -> Cut:
    config = vision.config
    flat = vision.root.family.rows.order != "raster"
    frames = int(getattr(config, "temporal_patch_size", 1))
    return Cut(side=vision.patch_size, merge=vision.spatial_merge_size, frames=frames, flat=flat)


def _reads(vision: Vision, chosen: Any) -> tuple[int, ...]:
    """The blocks whose streams the wrapper reads, where a call chooses these or, with ``None``, the config does."""
    taken = vision.feature_layers if chosen is None else vision.blocks_of(chosen)
    last = sum(len(getattr(vision, name)) for name in vision.LISTS) - 1
    taps = [number for name in TAPS for number in getattr(vision.config, name, None) or ()]
    return tuple(sorted({*(taken or [last]), *taps}))
