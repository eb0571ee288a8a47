"""Where the patches and image tokens of a model's own input are: an encoding made into a `PatchLayout`.

`shown`
    the tower's side: which pictures, tiles and thumbnails an encoding holds, and how each lies in its picture;
`tokens`
    the text's side: which patches each image token is made of;
`layout`
    both, as one layout;
`videos`
    a layout of the videos, whose frames a tower takes in a forward of their own.
"""

from belvedere.locating.layout import locate
from belvedere.locating.videos import locate_videos

__all__ = ["locate", "locate_videos"]
