"""A tool loop on one connection, some of whose turns are counted by callgrind; for ``test_cost``.

    valgrind --tool=callgrind --instr-atstart=no ... cost_driver.py stateful 3 7 196 200

counts turns 3 to 7 in one dump and 196 to 200 in the next.  There is no clock,
socket or chance in it, and no collector: when a collection falls due depends on
all that was before, not on the turn.
"""

from __future__ import annotations

import gc
import json
import sys

from responses_ref.bench.callgrind import DUMP, START, STOP, Counter
from responses_ref.model import ScriptedModel
from responses_ref.model.streamer import profile
from responses_ref.oracle import Oracle
from responses_ref.pipeline import Pipeline
from responses_ref.serving import tokens

OUTPUT = "a line of output\n" * 241  # 4 KiB
TOOLS = [{"type": "function", "name": "run", "parameters": {"type": "object"}}]


def run(stateless: bool, counted: list[range]) -> None:
    """Each turn sends the output of the last call; the model calls again."""
    counter, turns = Counter(), counted[-1][-1]
    model = ScriptedModel(profile("instant"), turns)
    oracle = Oracle(pipeline=Pipeline(model, tokens, stateless))
    oracle.step({"do": "open", "conn": "a"})
    new: object = "go"
    parent = None
    for turn in range(1, turns + 1):
        create = {"type": "response.create", "model": "m", "store": False, "tools": TOOLS, "input": new}
        line = {"do": "receive", "conn": "a", "text": json.dumps({**create, "previous_response_id": parent})}
        if any(turn in some for some in counted):
            counter.ask(START)
        out = oracle.step(line)
        counter.ask(STOP)
        if any(turn == some[-1] for some in counted):
            counter.ask(DUMP)
        response = json.loads(out[-2]["text"])["response"]
        (call,) = response["output"]
        parent = response["id"]
        new = [{"type": "function_call_output", "call_id": call["call_id"], "output": OUTPUT}]


if __name__ == "__main__":
    gc.disable()
    how, *bounds = sys.argv[1:]
    numbers = [int(bound) for bound in bounds]
    run(how == "stateless", [range(a, b + 1) for a, b in zip(numbers[::2], numbers[1::2], strict=True)])
