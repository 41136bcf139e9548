"""The decision: whether a window differs from the reference, in what, and how sure that is.

A window is counted by the tests of its regime (``plan``, ``reference``) and compared with the older
ones (``comparison``), corrected for dependent rows (``dispersion``). The decider (``decider``) puts
the families together; what changed is named (``naming``, ``edits``), told as one episode for each
change (``episodes``) and written down (``outcome``). How far to trust it all is in ``trust``. The
statistics are in METHOD.md, in the same order.
"""
