"""The conformance suite made from the text of ``spec/``.

An order to read it in; each step needs those before it:

1. The text: ``specdoc``, with ``transcript`` and ``verbs`` for the cases and ``tables`` for the prose.
2. Playing a case: ``suite`` -> ``runner`` -> ``sending`` and ``expecting``, on ``session``, ``inbox`` and
   ``wire``. What is talked to is a ``target``; what may be asked of it, an ``offer``.
3. Judging its trace, or anybody's: ``judge`` -> ``demux``, which works out a ``state`` -> ``invariants``.
4. What came of it: ``verdict`` -> ``report``.
5. Whether the judges are awake: ``mutants``.
"""

from __future__ import annotations

__version__ = "0.1.0"
