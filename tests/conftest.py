"""Fixtures that all tests share: servers in processes of their own, and what they have sent."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import process
import pytest


@pytest.fixture(scope="session")
def servers_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where every server process of this run leaves its traces: ``*/traces/*.jsonl``."""
    return tmp_path_factory.mktemp("servers")


@pytest.fixture(scope="session")
def server_numbers() -> Iterator[int]:
    return itertools.count()


@pytest.fixture(scope="session")
def server(servers_folder: Path) -> Iterator[process.Server]:
    """A server with the default settings, the same for all tests: each opens its own connections."""
    running = process.start(servers_folder / "shared")
    yield running
    running.stop()


@pytest.fixture
def serve(servers_folder: Path, server_numbers: Iterator[int]) -> Iterator[Callable[..., process.Server]]:
    """Start servers with flags; they are stopped, and checked, when the test has ended."""
    running: list[process.Server] = []

    def start(*flags: str, **options: dict[str, str]) -> process.Server:
        folder = servers_folder / f"{next(server_numbers):03}"
        running.append(process.start(folder, *flags, **options))
        return running[-1]

    yield start
    for one in running:
        one.stop()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests marked ``last`` look back at what all the others did."""
    items.sort(key=lambda item: item.get_closest_marker("last") is not None)
