"""A map over several processes, in order."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from itertools import islice
from multiprocessing import get_context
from typing import Any, TypeVar

Item, Result = TypeVar("Item"), TypeVar("Result")


def parallel_map(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    processes: int,
    begin: Callable[..., None] | None = None,
    *arguments: Any,
) -> Iterator[Result]:
    """Apply the function to each item in so many processes, in the order of the items; few items are in memory at a time.

    begin: called with the arguments in each process before its first item. A single process is this one.
    """
    if processes == 1:
        if begin:
            begin(*arguments)
        yield from map(function, items)
        return
    waiting: deque[Future[Result]] = deque()
    rest = iter(items)
    # Spawned, since a fork of a process whose libraries have threads may wait for ever.
    with ProcessPoolExecutor(processes, get_context("spawn"), begin, arguments) as pool:
        while True:
            waiting.extend(pool.submit(function, item) for item in islice(rest, 2 * processes - len(waiting)))
            if not waiting:
                return
            yield waiting.popleft().result()
