from __future__ import annotations

from pathlib import Path

import pytest

from autotune.core.files import replaced_atomically, write_atomically


def test_text_is_written_as_it_is(tmp_path: Path) -> None:
    """Letters are UTF-8 and line ends stay."""
    path = tmp_path / "file"
    write_atomically(path, "λ\r\n\n")
    assert path.read_bytes() == "λ\r\n\n".encode()


def test_nothing_else_is_left_in_the_folder(tmp_path: Path) -> None:
    """Neither a new file nor a replaced one leaves a temporary file behind."""
    path = tmp_path / "file"
    for text in ("first", "second"):
        write_atomically(path, text)
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_text(encoding="utf-8") == "second"


def test_error_leaves_the_old_file(tmp_path: Path) -> None:
    """What fails half-way has no effect."""
    path = tmp_path / "file"
    path.write_text("old", encoding="utf-8")
    with pytest.raises(KeyError), replaced_atomically(path) as file:
        file.write(b"new")
        raise KeyError
    assert path.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_reader_sees_the_old_file_until_the_end(tmp_path: Path) -> None:
    """The name changes its content in one step, when all has been written."""
    path = tmp_path / "file"
    path.write_text("old", encoding="utf-8")
    with replaced_atomically(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_text(encoding="utf-8") == "old"
    assert path.read_text(encoding="utf-8") == "new"


def test_link_stays_a_link(tmp_path: Path) -> None:
    """The file that a symbolic link points to is replaced, not the link."""
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old", encoding="utf-8")
    link.symlink_to(target)
    write_atomically(link, "new")
    assert link.is_symlink()
    assert target.read_text(encoding="utf-8") == "new"


def test_permissions_of_the_old_file_stay(tmp_path: Path) -> None:
    """A replaced file is readable by whom it was before."""
    path = tmp_path / "file"
    path.write_text("old", encoding="utf-8")
    path.chmod(0o640)
    write_atomically(path, "new")
    assert path.stat().st_mode & 0o777 == 0o640


def test_missing_folder_is_an_error(tmp_path: Path) -> None:
    """No folder is made up."""
    with pytest.raises(FileNotFoundError):
        write_atomically(tmp_path / "nowhere" / "file", "text")
