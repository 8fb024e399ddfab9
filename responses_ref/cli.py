"""A server of the Responses API over WebSocket, its benchmarks, and an oracle for ports."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from . import __version__
from .bench import command as command_bench
from .model.streamer import MAX_TTFT, profile
from .oracle import run as run_oracle
from .protocol.settings import ALL_PROFILES
from .serving import Options, serve


def _number(
    kind: type[int] | type[float], low: float, what: str, high: float = 10**9
) -> Callable[[str], float]:
    """A reader of numbers from ``low`` to ``high``; anything else is told what it must be."""

    def read(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            value = math.nan
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"must be {what}")
        return value

    return read


_positive = _number(float, math.ulp(0.0), "a number greater than 0")
_not_negative = _number(float, 0, "a number, 0 or more")
_count = _number(int, 0, "a whole number, 0 or more")
_positive_int = _number(int, 1, "a whole number greater than 0")
_turns = _number(int, 3, "from 3 to 500", 500)
_port = _number(int, 0, "a port, from 0 to 65535", 65_535)
_grid = _number(float, 1e-6, "a number of seconds greater than 0, up to 1", 1)
_hops = _number(int, 0, "from 0 to 1000", 1_000)
_ttft = _number(float, 0, f"a number of seconds up to {MAX_TTFT}", MAX_TTFT)


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise argparse.ArgumentTypeError("must be a list of names, separated by commas")
    return names


def _profiles(text: str) -> frozenset[str]:
    names = frozenset(name.lower() for name in _names(text))
    if unknown := names - ALL_PROFILES:
        known = ", ".join(sorted(ALL_PROFILES))
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(sorted(unknown))}; known: {known}")
    return names | {"core"}


def _speed(text: str) -> str:
    try:
        profile(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def _serve_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    unsaid = argparse.SUPPRESS  # what is not said is left to Options
    serve_parser = commands.add_parser(
        "serve", help="serve the protocol on one port", argument_default=unsaid
    )
    add = serve_parser.add_argument
    add("--host", help="an address; another than loopback needs --api-key-env")
    add("--port", type=_port, default=8765, help="0 takes a free one (default: %(default)s)")
    add(
        "--speed",
        type=_speed,
        default="instant",
        help="gpu-65, cerebras-1000, cerebras-4000, instant, or tokens a second",
    )
    add("--ttft", type=_ttft, default=None, metavar="SECONDS", help="time to the first token")
    add("--grid", type=_grid, metavar="SECONDS", help="grid of the pacing timer")
    add("--seed", type=_count, help="make every run byte-identical")
    add("--models", type=_names, metavar="NAME,...", help="serve these models only")
    add("--agent-turns", type=_count, help="tool rounds of the model without a script")
    add("--api-key-env", metavar="NAME", help="environment variable with the keys, separated by commas")
    add("--tls-cert", type=Path, metavar="PATH", help="certificate chain in PEM; serves https and wss")
    add("--tls-key", type=Path, metavar="PATH", help="its private key in PEM")
    add("--profiles", type=_profiles, metavar="LIST", help="offer these profiles only")
    add("--dialect", choices=["append"], help="speak the append prototype on every connection")
    add("--trace", type=Path, metavar="DIR", help="write one JSON Lines file per connection")
    add("--max-connection-seconds", type=_positive, help="lifetime")
    add("--idle-seconds", type=_positive, help="default: the connection's lifetime")
    add("--heartbeat-seconds", type=_positive, help="longest silence of a running response")
    add("--grace-seconds", type=_positive, help="for running responses, at the limit or at SIGTERM")
    add("--max-message-bytes", type=_positive_int, help="beyond it: Close 1009")
    add("--max-connections", type=_positive_int, help="at the same time")
    add("--classify-ns-per-byte", type=_not_negative, metavar="N", help="a slower safety check")
    add("--hops", type=_hops, help="simulated services before inference")
    add("--hop-latency", type=_not_negative, metavar="SECONDS", help="what each of them takes")


def _bench_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    bench = commands.add_parser("bench", help="measure, and compare with other libraries")
    bench.add_argument("bench", choices=[*command_bench.BENCHES, command_bench.ALL])
    bench.add_argument("--quick", action="store_true", help="check that it works, in less than two minutes")
    bench.add_argument("--json", type=Path, metavar="FILE", dest="json_file", help="write all that was found")
    bench.add_argument("--plot", type=Path, metavar="FILE", dest="plot_file", help="draw it, as SVG")
    axes = bench.add_argument_group("a setting of your own for agent-loop").add_argument
    axes("--turns", type=_turns, metavar="N", help="responses (default: 20)")
    axes("--bytes", type=_positive_int, metavar="N", help="of a tool's output (default: 8000)")
    axes("--tps", type=_not_negative, metavar="N", help="tokens a second, 0: instant (default: 1000)")
    axes("--ttft", type=_not_negative, metavar="SECONDS", help="time to the first token (default: 0.05)")
    axes("--tool-seconds", type=_not_negative, metavar="SECONDS", help="what a tool takes (default: 0)")
    axes("--rtt", type=_not_negative, metavar="SECONDS", help="round trip (default: 0.02)")
    axes("--bandwidth", type=_not_negative, metavar="N", help="bytes a second (default: 0, no limit)")
    axes("--classify-ns-per-byte", type=_not_negative, metavar="N", help="a slower safety check")
    axes("--hops", type=_hops, metavar="N", help="simulated services before inference (default: 0)")
    axes("--hop-latency", type=_not_negative, metavar="SECONDS", help="what each of them takes")
    axes("--rounds", type=_positive_int, metavar="N", help="of which the median counts (default: 1)")


def parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    top = argparse.ArgumentParser(
        prog="responses-ref", description=__doc__.partition("\n")[0] if __doc__ else ""
    )
    top.add_argument("--version", action="version", version=__version__)
    commands = top.add_subparsers(dest="command", required=True)
    _serve_parser(commands)
    _bench_parser(commands)
    oracle = commands.add_parser("oracle", help="answer JSON lines in virtual time, for ports")
    oracle.add_argument("--seed", type=_count, default=0, help="of ids and of the model (default: 0)")
    return top


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; exits 0 when it is done, 2 when it was asked for wrongly."""
    options = vars(parser().parse_args(arguments))
    chosen = options.pop("command")
    if chosen == "bench":
        sys.exit(command_bench.run(**options))
    if chosen == "oracle":
        sys.exit(run_oracle(**options))
    options["speed"] = profile(options.pop("speed"), options.pop("ttft"))
    sys.exit(serve(Options(**options)))
