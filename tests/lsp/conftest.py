"""One server for the tests of a file: it is started as an editor starts it, and asked as an editor asks."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator

import pytest_lsp
from lsprotocol import types as lsp
from pytest_lsp import ClientServerConfig, LanguageClient, client_capabilities

COMMAND = [sys.executable, "-m", "axon", "lsp"]


@pytest_lsp.fixture(scope="module", config=ClientServerConfig(server_command=COMMAND))
async def client(lsp_client: LanguageClient) -> AsyncIterator[None]:
    await lsp_client.initialize_session(
        lsp.InitializeParams(capabilities=client_capabilities("visual-studio-code"), workspace_folders=[])
    )
    yield
    await lsp_client.shutdown_session()
