"""Hands the cells of a notebook to a kernel by nbclient, in a thread beside the one that waits for its process.

The process is started, bounded and ended as any run: nbclient finds it by Jupyter's connection file, and has a manager
that knows nothing but whether it still runs.  What the cells print comes through the run's own output.
"""

from __future__ import annotations

import asyncio
import atexit
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import nbformat
from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.client import KernelClient
from jupyter_client.connect import KernelConnectionInfo
from jupyter_client.manager import AsyncKernelManager
from jupyter_client.provisioning.provisioner_base import KernelProvisionerBase
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, DeadKernelError

PATIENCE = 10.0
"""Seconds within which a kernel answers that it is shutting down, and the thread ends."""


class Client:
    """nbclient's work on one run, within a block."""

    def __init__(self, document: str, sources: Mapping[int, str], connection: str, timeout: float) -> None:
        self._document, self._sources, self._connection, self._timeout = document, sources, connection, timeout
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._is_over = threading.Event()
        self._failure = ""

    def failed(self) -> str:
        """Reason why the cells could not be handed to the kernel; empty while they can."""
        return self._failure

    def __enter__(self) -> Client:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        with suppress(RuntimeError):  # it has ended by itself
            self._loop.call_soon_threadsafe(self._end)
        self._thread.join(PATIENCE)

    def _end(self) -> None:
        for task in asyncio.all_tasks(self._loop):
            task.cancel()

    def _work(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._execute())
        except asyncio.CancelledError:
            pass
        except Exception as error:
            if not self._is_over.is_set():
                self._failure = f"nbclient could not hand the cells to the kernel: {type(error).__name__}: {error}"
        finally:
            self._end()
            self._loop.run_until_complete(asyncio.gather(*asyncio.all_tasks(self._loop), return_exceptions=True))
            self._loop.close()

    async def _execute(self) -> None:
        manager = AsyncKernelManager(connection_file=self._connection)
        manager.load_connection_file()
        manager.provisioner = Process(self._is_over)
        executor: Executor = Executor(
            notebook(self._document, self._sources),
            km=manager,
            timeout=None,
            startup_timeout=int(self._timeout) + 1,
            on_cell_execute=lambda cell, cell_index: executor.tell_number(cell_index + 1),
        )
        try:
            with suppress(CellExecutionError):  # the kernel itself knows more of it
                await executor.async_execute()
            if executor.kc is not None:
                await asking(executor.kc).shutdown(reply=True, timeout=PATIENCE)
        except DeadKernelError:
            pass  # its run has ended
        finally:
            atexit.unregister(executor._cleanup_kernel)  # it stays where no kernel has answered
            if executor.kc is not None:
                executor.kc.stop_channels()


def asking(client: KernelClient) -> AsyncKernelClient:
    """The *client* by its own type, which nbclient does not say."""
    assert isinstance(client, AsyncKernelClient)
    return client


def notebook(document: str, sources: Mapping[int, str]) -> Any:
    """The notebook of a *document* with the *sources* of its code cells; cells without one are not executed."""
    found = nbformat.reads(document, as_version=4)  # type: ignore[no-untyped-call]
    for number, cell in enumerate(found.cells, 1):
        if cell.cell_type == "code" and number in sources:
            cell.source = sources[number]
        elif cell.cell_type == "code":  # of another language
            cell.cell_type = "raw"
    return found


class Process(KernelProvisionerBase):
    """A kernel's process that is somebody else's to start and to end."""

    def __init__(self, is_over: threading.Event) -> None:
        super().__init__()
        self._is_over = is_over

    @property
    def has_process(self) -> bool:
        return True

    async def poll(self) -> int | None:
        return 0 if self._is_over.is_set() else None

    async def wait(self) -> int | None:
        return await self.poll()

    async def send_signal(self, signum: int) -> None:
        """Leave it to the runner, as all that follows."""

    async def kill(self, restart: bool = False) -> None:
        self._is_over.set()

    async def terminate(self, restart: bool = False) -> None:
        self._is_over.set()

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> KernelConnectionInfo:
        raise RuntimeError("the kernel runs already")

    async def cleanup(self, restart: bool = False) -> None:
        pass


class Executor(NotebookClient):
    """Client that keeps neither outputs nor widgets: a cell that prints without end costs nothing here."""

    def tell_number(self, number: int) -> None:
        """Let the next request name the cell by its *number*, as Jupyter names it by its id."""
        assert self.kc is not None
        self.kc.session.metadata = {"cellId": str(number)}

    def output(self, *_: Any) -> None:
        """Drop an output."""

    def handle_comm_msg(self, *_: Any) -> None:
        """Drop a message of a widget."""
