"""Checkpoints under what happens to disks and processes."""

from __future__ import annotations

import errno
import json
import logging
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from driftbn_service.checkpoint import (
    CheckpointDirectory,
    CheckpointError,
    LockedError,
    files,
    segments,
)
from driftbn_service.checkpoint.manifest import Place
from driftbn_service.checkpoint.verification import read_manifest

from tests.small_disk import small_disk_at

N_KILLS = 40
ROOT = Path(__file__).parents[2]


def noise(seed: int, n: int = 300) -> bytes:
    return random.Random(seed).randbytes(n)


@pytest.fixture
def three(tmp_path: Path) -> Path:
    """A directory with three checkpoints in one segment; "a" is put once, "b" three times."""
    path = tmp_path / "lane"
    with CheckpointDirectory(path) as one:
        one.open()
        one.put("a", noise(0))
        for n in (1, 2, 3):
            one.put("b", noise(n))
            one.commit({"n": n})
    return path


def open_copy(path: Path, name: str, data: bytes) -> tuple[int | None, Path]:
    """Return which checkpoint is loaded if a file has another content; ``None`` for none."""
    copy = path.with_name("copy")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(path, copy)
    (copy / name).write_bytes(data)
    with CheckpointDirectory(copy) as one:
        try:
            loaded = one.open()
        except CheckpointError:
            return None, copy
        assert loaded is not None
        assert loaded.meta == {"n": loaded.number}
        assert one.get("a") == noise(0)
        assert one.get("b") == noise(loaded.number)
        one.put("b", noise(9))
        one.commit({"n": 9})
    with CheckpointDirectory(copy) as one:
        again = one.open()
        assert again is not None
        assert (again.meta, one.get("b")) == ({"n": 9}, noise(9))
    return loaded.number, copy


def places(path: Path) -> dict[int, list[Place]]:
    return {n: list(read_manifest(path, n).places.values()) for n in (1, 2, 3)}


def newest_without(path: Path, is_hit: Callable[[Place], bool]) -> int | None:
    good = (n for n, found in places(path).items() if not any(is_hit(place) for place in found))
    return max(good, default=None)


# Damage


def test_a_manifest_cut_off_anywhere_is_not_used(three: Path) -> None:
    name = "manifest-000000000003"
    data = (three / name).read_bytes()
    cuts = {*range(0, 64, 9), *range(64, len(data), 17), len(data) - 1}
    for cut in sorted(cuts):
        number, copy = open_copy(three, name, data[:cut])
        assert number == 2, f"cut after {cut} bytes"
        assert (copy / f"{name}.corrupt").read_bytes() == data[:cut]
    assert open_copy(three, name, data)[0] == 3
    assert open_copy(three, name, data + b"\0")[0] == 2


def test_a_manifest_with_any_bit_turned_is_not_used(three: Path) -> None:
    name = "manifest-000000000003"
    data = (three / name).read_bytes()
    rng = random.Random(1)
    for at in (*range(64), *(rng.randrange(64, len(data)) for _ in range(40))):
        turned = bytearray(data)
        turned[at] ^= 1 << rng.randrange(8)
        assert open_copy(three, name, bytes(turned))[0] == 2, f"byte {at}"


def test_a_segment_cut_off_anywhere_leaves_what_is_whole(three: Path) -> None:
    name = "segment-000000000001"
    data = (three / name).read_bytes()
    seen = set()
    for cut in (*range(0, len(data), 29), len(data) - 1, len(data)):
        expected = newest_without(three, lambda place, cut=cut: place.offset + place.length > cut)
        assert open_copy(three, name, data[:cut])[0] == expected, f"cut after {cut} bytes"
        seen.add(expected)
    assert seen == {None, 1, 2, 3}


def test_a_segment_with_any_bit_turned_leaves_what_is_whole(three: Path) -> None:
    name = "segment-000000000001"
    data = (three / name).read_bytes()
    rng = random.Random(1)
    seen = set()
    for at in range(len(segments.MAGIC), len(data), 23):
        turned = bytearray(data)
        turned[at] ^= 1 << rng.randrange(8)
        expected = newest_without(
            three, lambda place, at=at: place.offset <= at < place.offset + place.length
        )
        assert open_copy(three, name, bytes(turned))[0] == expected, f"byte {at}"
        seen.add(expected)
    assert seen == {None, 2, 3}  # "a" is in all of them


def test_damage_is_told_with_file_and_reason(three: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = three / "manifest-000000000003"
    path.write_bytes(path.read_bytes()[:-1])
    with CheckpointDirectory(three) as one:
        loaded = one.open()
    assert loaded is not None
    assert (loaded.number, loaded.n_damaged) == (2, 1)
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert str(path) in record.getMessage()
    assert "bytes and has" in record.getMessage()
    assert f"{path.name}.corrupt" in record.getMessage()


def test_if_no_checkpoint_is_good_nothing_is_begun_anew(three: Path) -> None:
    for path in three.glob("manifest-*"):
        path.write_bytes(b"")
    before = sorted(path.name for path in three.iterdir())
    for _ in range(2):
        with pytest.raises(CheckpointError, match=r"no checkpoint can be used .*move it away"):
            CheckpointDirectory(three).open()
    assert sorted(path.name for path in three.iterdir()) == before


def test_if_all_checkpoints_were_set_aside_nothing_is_begun_anew(three: Path) -> None:
    for path in three.glob("manifest-*"):
        path.rename(path.with_name(path.name + ".corrupt"))
    with pytest.raises(CheckpointError, match="manifest 3 was set aside"):
        CheckpointDirectory(three).open()


def test_a_damaged_older_checkpoint_is_set_aside(
    three: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (three / "manifest-000000000001").write_bytes(b"x")
    with CheckpointDirectory(three) as one:
        loaded = one.open()
        assert loaded is not None
        assert loaded.number == 3
        assert one.oldest == {"n": 2}
    assert len(caplog.records) == 1


# Failing calls


def fail_once(
    monkeypatch: pytest.MonkeyPatch, name: str, is_meant: Callable[..., bool], code: int
) -> None:
    real = getattr(os, name)
    failed = []

    def call(*arguments: object) -> object:
        if not failed and is_meant(*arguments):
            failed.append(arguments)
            raise OSError(code, os.strerror(code))
        return real(*arguments)

    monkeypatch.setattr(os, name, call)


def is_named(part: str) -> Callable[..., bool]:
    return lambda descriptor, *_: part in os.readlink(f"/proc/self/fd/{descriptor}")


@pytest.mark.parametrize(
    ("name", "is_meant"),
    [
        ("fsync", is_named("segment")),
        ("fsync", is_named(".tmp")),
        ("fsync", lambda descriptor: os.readlink(f"/proc/self/fd/{descriptor}").endswith("lane")),
        ("pwrite", is_named(".tmp")),
        ("rename", lambda *_: True),
    ],
    ids=["fsync-segment", "fsync-manifest", "fsync-directory", "write-manifest", "rename"],
)
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_commit_that_fails_can_be_repeated(
    three: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    is_meant: Callable[..., bool],
    code: int,
) -> None:
    with CheckpointDirectory(three) as one:
        one.open()
        one.put("b", noise(4))
        one.put("c", noise(5))
        fail_once(monkeypatch, name, is_meant, code)
        with pytest.raises(OSError, match=os.strerror(code)):
            one.commit({"n": 4})
        assert one.get("b") == noise(4)
        assert list(three.glob("*.tmp")) == []
        one.commit({"n": 5})
    with CheckpointDirectory(three) as one:
        loaded = one.open()
        assert loaded is not None
        assert (loaded.number, loaded.meta) == (4, {"n": 5})
        assert [one.get(key) for key in "abc"] == [noise(0), noise(4), noise(5)]


def test_what_a_failed_sync_may_have_lost_is_written_again(
    three: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with CheckpointDirectory(three) as one:
        one.open()
        one.put("b", noise(4))
        suspect = max(three.glob("segment-*"))
        fail_once(monkeypatch, "fsync", is_named("segment"), errno.EIO)
        with pytest.raises(OSError, match="Input/output"):
            one.commit({"n": 4})
        one.commit({"n": 4})
        suspect.unlink(missing_ok=True)
        assert one.get("b") == noise(4)


def test_a_failed_put_leaves_the_state_before(three: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with CheckpointDirectory(three) as one:
        one.open()
        for n in (4, 5):  # the first makes the segment
            fail_once(monkeypatch, "pwrite", is_named("segment"), errno.ENOSPC)
            with pytest.raises(OSError, match="No space"):
                one.put("b", noise(n))
            assert one.get("b") == noise(n - 1)
            one.put("b", noise(n))
        one.commit({"n": 5})
    with CheckpointDirectory(three) as one:
        one.open()
        assert one.get("b") == noise(5)


def test_old_files_that_cannot_be_deleted_stop_no_commit(
    three: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with CheckpointDirectory(three) as one:
        one.open()
        fail_once(monkeypatch, "unlink", lambda *_: True, errno.EIO)
        one.commit({"n": 4})
        assert "cannot be deleted" in caplog.text
        assert len(list(three.glob("manifest-*"))) == 4
        one.commit({"n": 5})
        assert len(list(three.glob("manifest-*"))) == 3


def test_everything_named_is_on_disk_before_its_name_and_old_files_go_last(
    three: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[str, str]] = []

    def noted(name: str, path_of: Callable[..., str]) -> None:
        real = getattr(os, name)

        def call(*arguments: object) -> object:
            calls.append((name, Path(path_of(*arguments)).name))
            return real(*arguments)

        monkeypatch.setattr(os, name, call)

    with CheckpointDirectory(three) as one:
        one.open()
        one.put("a", noise(7))
        one.put("b", noise(8))
        noted("fsync", lambda descriptor: os.readlink(f"/proc/self/fd/{descriptor}"))
        noted("rename", lambda source, _: source)
        noted("unlink", lambda path: path)
        for n in (4, 5, 6):
            one.commit({"n": n})
    assert calls[:6] == [
        ("fsync", "segment-000000000002"),
        ("fsync", "lane"),
        ("fsync", "manifest-000000000004.tmp"),
        ("rename", "manifest-000000000004.tmp"),
        ("fsync", "lane"),
        ("unlink", "manifest-000000000001"),
    ]
    assert calls[-2:] == [("unlink", "manifest-000000000003"), ("unlink", "segment-000000000001")]


# A full disk


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    with small_disk_at(tmp_path / "disk", "1m") as path:
        yield path


def test_a_full_disk_loses_nothing_and_work_goes_on_when_there_is_room(small_disk: Path) -> None:
    filler = small_disk / "filler"
    filler.write_bytes(noise(0, 500_000))
    lane = small_disk / "lane"
    expected: dict[str, bytes] = {}
    committed: dict[str, bytes] = {}
    with CheckpointDirectory(lane) as one:
        one.open()
        n = n_failed = 0
        while n_failed < 5:
            n += 1
            key, state = f"key {n}", noise(n, 20_000)
            try:
                one.put(key, state)
                expected[key] = state
                one.commit({"n": n})
                committed = dict(expected)
            except OSError as error:
                assert error.errno == errno.ENOSPC  # noqa: PT017 - how often is not known
                n_failed += 1
                assert {key: one.get(key) for key in expected} == expected
        shutil.copytree(lane, small_disk.parent / "as left")
        filler.unlink()
        one.put("last", noise(n))
        one.commit({"n": "last"})
    with CheckpointDirectory(lane) as one:
        loaded = one.open()
        assert loaded is not None
        assert loaded.meta == {"n": "last"}
        expected["last"] = noise(n)
        assert {key: one.get(key) for key in one.keys()} == expected  # noqa: SIM118
    with CheckpointDirectory(small_disk.parent / "as left") as one:
        loaded = one.open()
        assert loaded is not None
        assert loaded.n_damaged == 0
        assert {key: one.get(key) for key in one.keys()} == committed  # noqa: SIM118


def test_a_full_disk_while_the_manifest_is_written_leaves_the_one_before(small_disk: Path) -> None:
    with CheckpointDirectory(small_disk / "lane") as one:
        one.open()
        one.put("a", noise(1))
        one.commit({"n": 1})
        with pytest.raises(OSError, match="No space left"):
            one.commit({"n": 2, "outbox": "x" * 2_000_000})
        assert one.oldest == {"n": 1}
        one.commit({"n": 3})
    with CheckpointDirectory(small_disk / "lane") as one:
        loaded = one.open()
        assert loaded is not None
        assert loaded.meta == {"n": 3}
        assert one.get("a") == noise(1)


# Other processes

_ZYGOTE = """
import json, os, random, sys
from driftbn_service.checkpoint import CheckpointDirectory, directory, segments

segments.SEGMENT_BYTES, directory.COMPACTION_BYTES = 5_000, 2_000

def state(key, n):
    return random.Random(f"{key} {n}").randbytes(200 + 10 * int(key))

def work(path, seed):
    rng = random.Random(seed)
    one = CheckpointDirectory(path)
    loaded = one.open()
    n, versions = (loaded.meta["n"], loaded.meta["versions"]) if loaded else (0, {})
    os.write(1, b"opened %d\\n" % n)
    while True:
        n += 1
        for key in rng.sample([str(i) for i in range(30)], 4):
            if rng.random() < 0.1:
                one.forget(key)
                versions.pop(key, None)
            else:
                one.put(key, state(key, n))
                versions[key] = n
        os.write(1, b"begun %d\\n" % n)
        one.commit({"n": n, "versions": versions})
        os.write(1, b"done %d\\n" % n)

for line in sys.stdin:
    path, seed = json.loads(line)
    pid = os.fork()
    if not pid:
        work(path, seed)
    os.write(1, b"pid %d\\n" % pid)
    os.waitpid(pid, 0)
    os.write(1, b"gone 0\\n")
"""


class Zygote:
    """A process that has imported all it needs and makes others that write checkpoints."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _ZYGOTE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            cwd=ROOT,
        )

    def life(self, path: Path, seed: int, n_done: int, seconds: float) -> dict[str, int]:
        """Have a process write and kill it some time after so many commits.

        Returns
        -------
        dict
            The number that came last with each of its words.
        """
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([str(path), seed]).encode() + b"\n")
        last: dict[str, int] = {}
        while not {"pid", "opened"} <= last.keys() or n_done > 0:
            n_done -= self._hear(last) == "done"
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            if select.select([self.process.stdout], [], [], left)[0]:
                self._hear(last)
        os.kill(last["pid"], signal.SIGKILL)
        while "gone" not in last:
            self._hear(last)
        return last

    def _hear(self, last: dict[str, int]) -> str:
        assert self.process.stdout is not None
        word, number = self.process.stdout.readline().decode().split()
        last[word] = int(number)
        return word


@pytest.fixture
def zygote() -> Iterator[Zygote]:
    one = Zygote()
    with one.process as process:
        yield one
        assert process.stdin is not None
        process.stdin.close()


def test_a_killed_process_leaves_its_last_checkpoint_or_the_one_before(
    zygote: Zygote, tmp_path: Path
) -> None:
    rng = random.Random(1)
    path = tmp_path / "lane"
    reached = 0
    for seed in range(N_KILLS):
        last = zygote.life(path, seed, rng.randrange(6), rng.uniform(0, 0.02))
        assert last["opened"] == reached
        done = last.get("done", reached)
        with CheckpointDirectory(path) as one:
            loaded = one.open()
            if loaded is None:
                assert done == 0
                continue
            reached = loaded.meta["n"]
            assert reached in {done, last.get("begun")}
            assert loaded.n_damaged == 0
            versions = loaded.meta["versions"]
            assert sorted(one.keys()) == sorted(versions)
            for key, n in versions.items():
                expected = random.Random(f"{key} {n}").randbytes(200 + 10 * int(key))
                assert one.get(key) == expected
    assert reached >= N_KILLS
    assert list(path.glob("*.corrupt")) == []


_HOLDER = """
import sys
from driftbn_service.checkpoint import CheckpointDirectory
one = CheckpointDirectory(sys.argv[1])
one.open()
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that has the directory."""
    with subprocess.Popen(
        [sys.executable, "-c", _HOLDER, str(tmp_path / "lane")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_directory_in_use_names_the_process(
    holder: subprocess.Popen[str], tmp_path: Path
) -> None:
    one = CheckpointDirectory(tmp_path / "lane")
    started = time.monotonic()
    for wait in (0.0, 0.2):
        with pytest.raises(LockedError, match=f"process {holder.pid} uses") as caught:
            one.open(wait=wait)
        assert caught.value.pid == holder.pid
    assert time.monotonic() - started >= 0.2


def test_a_directory_whose_process_was_killed_is_free(
    holder: subprocess.Popen[str], tmp_path: Path
) -> None:
    with CheckpointDirectory(tmp_path / "lane") as one:
        threading.Timer(0.1, holder.kill).start()
        assert one.open(wait=30.0) is None
        one.commit({"n": 1})


def test_a_process_that_was_refused_has_changed_nothing(
    holder: subprocess.Popen[str], tmp_path: Path
) -> None:
    leftover = tmp_path / "lane" / f"manifest-000000000001{files.TEMPORARY}"
    leftover.write_bytes(b"being written by the other")
    with pytest.raises(LockedError):
        CheckpointDirectory(tmp_path / "lane").open()
    assert leftover.exists()
    assert (tmp_path / "lane" / "lock").read_text() == f"{holder.pid}\n"
