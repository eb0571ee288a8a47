"""The contract, run on one loaded checkpoint: what `model.verify` does, and the report that it returns.

`prompt` makes the input, `bench` runs it plainly and in traces, `raw` watches the plain runs by PyTorch hooks, and each
clause is a file of its own, in the order of `run.CLAUSES`.
"""

from belvedere.verifying.report import Difference, Outcome, Report
from belvedere.verifying.run import CLAUSES, verify

__all__ = ["CLAUSES", "Difference", "Outcome", "Report", "verify"]
