"""Memory goes from one result to the next when nobody looks at the first any more, and not before."""

from __future__ import annotations

import threading

import numpy as np

from rtviewer.build.kept_memory import KeptMemory


def test_bytes_come_back_when_the_last_view_is_gone() -> None:
    kept = KeptMemory()
    first = kept.lend(1000, "a")
    assert first.shape == (1000,)
    assert first.dtype == np.uint8
    assert first.flags.writeable
    assert first.ctypes.data % 64 == 0
    assert not first.any()
    first[:] = 7
    address, view = first.ctypes.data, first[100:200].view(np.float32)[3:]
    del first
    other = kept.lend(1000, "a")
    assert other.ctypes.data != address
    assert not other.any()
    assert (view.view(np.uint8) == 7).all()
    del view
    again = kept.lend(1000, "a")
    assert again.ctypes.data == address
    assert (again == 7).all()


def test_only_the_same_use_of_the_same_size_gets_them() -> None:
    kept = KeptMemory()
    kept.lend(1000, "a")[:] = 7
    assert not kept.lend(1000, "b").any()
    assert not kept.lend(1001, "a").any()
    kept.lend(1000, "a")[:] = 7
    assert kept.lend(1000, "a").all()


def test_no_more_is_kept_than_was_said() -> None:
    kept = KeptMemory(2)
    pieces = [kept.lend(64, number) for number in range(5)]
    for number, piece in enumerate(pieces):
        piece[:] = number + 1
    del piece
    while pieces:
        del pieces[0]
    assert [int(kept.lend(64, number)[0]) for number in (4, 3, 2, 1, 0)] == [5, 4, 0, 0, 0]


def test_threads_never_get_the_same_bytes() -> None:
    kept, wrong = KeptMemory(), list[int]()

    def work(number: int) -> None:
        for turn in range(3000):
            mine = kept.lend(256, "all")
            mine[:] = number
            if turn % 7 == 0:
                threading.Event().wait(0)
            if (mine != number).any():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
