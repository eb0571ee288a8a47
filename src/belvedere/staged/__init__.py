"""A tower run by hand, on the checkpoint's own modules: embed the pixels, run any of the blocks, merge the features.

``model.vision.staged`` is a `Staged`. Nothing of a tower is written a second time here: its own forward is run with its
blocks answered in their place (`answered`), so what surrounds them is always the model's own. What a run stands on is a
`State`, a small record of tensors that can be kept, edited, saved and taken up again.
"""

from belvedere.staged.answers import answered, standing_in
from belvedere.staged.state import Call, State
from belvedere.staged.tower import Parts, Staged

__all__ = ["Call", "Parts", "Staged", "State", "answered", "standing_in"]
