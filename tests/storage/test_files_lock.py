import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from uclearn.storage.files import LOCK_NAME, FolderBusyError, FolderLock, StorageError

HOLD = """
import sys, time
from pathlib import Path
from uclearn.storage.files import FolderLock
with FolderLock(Path(sys.argv[1]), "uclearn run permuted-mnist"):
    print("held", flush=True)
    sys.stdin.readline()
print("released", flush=True)
time.sleep(60)
"""

COUNT = """
import sys, time
from pathlib import Path
from uclearn.storage.files import FolderBusyError, FolderLock
folder = Path(sys.argv[1])
for _ in range(50):
    while True:
        try:
            with FolderLock(folder, "counting"):
                counter = folder / "counter"
                counter.write_text(str(int(counter.read_text()) + 1))
            break
        except FolderBusyError:
            time.sleep(0.001)
"""


def holder(folder: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_second_process_is_told_who_is_there(tmp_path: Path) -> None:
    with holder(tmp_path) as process:
        with pytest.raises(FolderBusyError) as caught:
            FolderLock(tmp_path, "me").acquire()
        process.kill()
    said = (
        rf"Folder {tmp_path} is in use by process {process.pid} \(uclearn run permuted-mnist\) on "
        r".+, since \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00\. Wait until it has ended, or choose "
        r"another folder\."
    )
    assert re.fullmatch(said, str(caught.value))


def test_it_is_free_again_when_its_owner_is_done(tmp_path: Path) -> None:
    with holder(tmp_path) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("go on\n")
        process.stdin.flush()
        assert process.stdout.readline() == "released\n"
        with FolderLock(tmp_path, "me"):
            assert process.poll() is None
        process.kill()


def test_it_is_free_again_when_its_owner_is_killed(tmp_path: Path) -> None:
    with holder(tmp_path) as process:
        process.send_signal(signal.SIGKILL)
    with FolderLock(tmp_path, "me"):
        pass


def test_never_two_at_once(tmp_path: Path) -> None:
    """Four processes add 1 to a number 50 times each, by reading and writing: none is lost."""
    (tmp_path / "counter").write_text("0")
    command = [sys.executable, "-c", COUNT, str(tmp_path)]
    processes = [subprocess.Popen(command) for _ in range(4)]
    assert [process.wait() for process in processes] == [0, 0, 0, 0]
    assert (tmp_path / "counter").read_text() == "200"


def test_within_one_process_too(tmp_path: Path) -> None:
    with FolderLock(tmp_path, "first") as lock:
        with pytest.raises(FolderBusyError, match=rf"process {os.getpid()} \(first\)"):
            FolderLock(tmp_path, "second").acquire()
        with pytest.raises(FolderBusyError, match="already held; release it first"):
            lock.acquire()
    lock.release()
    with lock:
        pass


def test_other_folders_are_free(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    with FolderLock(tmp_path, "one"), FolderLock(tmp_path / "below", "other"):
        pass


@pytest.mark.parametrize("signature", [b"", b'{"pid": 1', b"[]", b"{}", b"\xff"])
def test_an_owner_that_has_not_signed_yet(tmp_path: Path, signature: bytes) -> None:
    with FolderLock(tmp_path, "first"):
        (tmp_path / LOCK_NAME).write_bytes(signature)
        with pytest.raises(FolderBusyError, match=r"is in use by another process. Wait"):
            FolderLock(tmp_path, "second").acquire()


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"Could not lock .*absent: No such file.*exists"):
        FolderLock(tmp_path / "absent", "me").acquire()


def test_a_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr("fcntl.flock", refuse)
    with pytest.raises(StorageError, match=r"Function not implemented\. Choose a folder on a file"):
        FolderLock(tmp_path, "me").acquire()


def test_children_that_are_forked_keep_it(tmp_path: Path) -> None:
    """They still work in the folder, whatever becomes of their parent."""
    program = (
        "import os, sys, time\n"
        "from pathlib import Path\n"
        "from uclearn.storage.files import FolderLock\n"
        "FolderLock(Path(sys.argv[1]), 'parent').acquire()\n"
        "if os.fork():\n"
        "    os._exit(0)\n"
        "print(os.getpid(), flush=True)\n"
        "time.sleep(60)\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        try:
            assert process.wait() == 0
            with pytest.raises(FolderBusyError, match=r"\(parent\)"):
                FolderLock(tmp_path, "me").acquire()
        finally:
            os.kill(child, signal.SIGKILL)
