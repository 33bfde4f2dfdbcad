"""Work of several processes, in order."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from itertools import islice
from multiprocessing import get_context
from typing import Any, TypeVar

Item, Result = TypeVar("Item"), TypeVar("Result")


def in_order(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    processes: int,
    begin: Callable[..., None] | None = None,
    *arguments: Any,
) -> Iterator[Result]:
    """The function of each item, by so many processes, in the order of the items; few items are in memory at any time.

    begin: called with the arguments in each process before it works. One process is this one.
    """
    if processes == 1:
        if begin:
            begin(*arguments)
        yield from map(function, items)
        return
    waiting: deque[Future[Result]] = deque()
    rest = iter(items)
    # Started anew: a fork of a process whose libraries have threads may wait for ever.
    with ProcessPoolExecutor(processes, get_context("spawn"), begin, arguments) as pool:
        while True:
            waiting.extend(pool.submit(function, item) for item in islice(rest, 2 * processes - len(waiting)))
            if not waiting:
                return
            yield waiting.popleft().result()
