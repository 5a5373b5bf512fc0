"""What is refused before anything is written, and what is shown of the rest."""

import gzip
import stat
import tarfile
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.errors import PackageRefusedError
from skills_mcp.features.authoring import package_archive
from skills_mcp.features.authoring.package_archive import unpacked_package
from skills_mcp.files import archive as limits
from skills_mcp.files.archive import require_distinct_entries
from tests.features.authoring.intake.archives import (
    GOOD,
    special,
    write_entry,
    write_header,
    write_tar,
    write_unnamed,
    write_zip,
)
from tests.packages import package_text


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The temporary folder, which has to be empty at the end."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def refusal(path: Path) -> str:
    """Return why an archive is refused."""
    with pytest.raises(PackageRefusedError) as caught, unpacked_package(path):
        pass
    return str(caught.value)


@pytest.mark.parametrize("prefix", ["", "pdf/"])
@pytest.mark.parametrize("kind", ["zip", "tar.gz", "tgz"])
def test_a_package_is_at_the_top_or_in_one_folder(
    tmp_path: Path, scratch: Path, prefix: str, kind: str
) -> None:
    files = {prefix + name: text for name, text in GOOD.items()}
    write = write_zip if kind == "zip" else write_tar

    with unpacked_package(write(tmp_path / f"a.{kind}", files)) as package:
        assert package.name == "pdf"
        assert package.description == "Fill in PDF forms."
        assert [path for path, _ in package.files] == ["SKILL.md", "scripts/fill.py"]
        assert (package.folder / "scripts/fill.py").read_text() == "print('filled')\n"
        assert len(package.digest) == 64

    assert list(scratch.iterdir()) == []


def test_findings_of_validation_are_shown(tmp_path: Path) -> None:
    text = package_text(version="1", body="[x](gone.md)")

    with unpacked_package(write_zip(tmp_path / "a.zip", {"SKILL.md": text})) as package:
        found = {(each.file, each.rule) for each in package.problems}

    assert {("SKILL.md", "unknown-key"), ("SKILL.md", "link-broken")} <= found


def test_settings_in_a_package_are_no_failure_of_the_server(tmp_path: Path) -> None:
    files = {**GOOD, "config.yaml": "validation:\n  select: [no-such-rule]\n"}

    assert "config.yaml" in refusal(write_zip(tmp_path / "a.zip", files))


def test_what_macos_adds_is_left_out(tmp_path: Path) -> None:
    files = {f"pdf/{name}": text for name, text in GOOD.items()}
    junk = {"__MACOSX/pdf/._SKILL.md": "x", "pdf/.DS_Store": "x"}

    with unpacked_package(write_zip(tmp_path / "a.zip", files | junk)) as package:
        assert [path for path, _ in package.files] == ["SKILL.md", "scripts/fill.py"]


@pytest.mark.parametrize("prefix", ["", "pdf/"])
def test_what_tar_of_macos_and_windows_add_is_left_out(tmp_path: Path, prefix: str) -> None:
    files = {f"{prefix}{name}": text for name, text in GOOD.items()}
    junk = {f"{prefix}{name}": "x" for name in ("._SKILL.md", "Thumbs.db", "desktop.ini")}
    junk[f"{prefix}__MACOSX/x"] = "x"

    with unpacked_package(write_tar(tmp_path / "a.tgz", {"._pdf": "x"} | junk | files)) as package:
        assert [path for path, _ in package.files] == ["SKILL.md", "scripts/fill.py"]


@pytest.mark.parametrize("name", ["说明.md", "Größe.md"])
def test_a_name_in_utf8_without_its_flag_is_read(tmp_path: Path, name: str) -> None:
    raw = name.encode()
    path = write_zip(tmp_path / "a.zip", {**GOOD, "x" * len(raw): "text"})
    path.write_bytes(path.read_bytes().replace(b"x" * len(raw), raw))

    with unpacked_package(path) as package:
        assert name in dict(package.files)


def test_a_name_whose_code_page_is_unknown_is_named(tmp_path: Path) -> None:
    raw = "说明.md".encode("gbk")
    path = write_zip(tmp_path / "a.zip", {**GOOD, "x" * len(raw): "text"})
    path.write_bytes(path.read_bytes().replace(b"x" * len(raw), raw))

    with unpacked_package(path) as package:
        [problem] = [p for p in package.problems if p.rule == "file-name"]
        assert problem.file in dict(package.files)
        assert problem.level == "warning"


def test_a_skill_file_is_a_zip(tmp_path: Path) -> None:
    with unpacked_package(write_zip(tmp_path / "a.skill")) as package:
        assert package.name == "pdf"


@pytest.mark.parametrize(
    "name, reason",
    [
        ("/etc/passwd", "absolute"),
        ("../out.txt", "with .."),
        ("a/../../out.txt", "with .."),
        ("C:/x.txt", "drive letter"),
        ("C:x.txt", "drive letter"),
        ("a\\b.txt", "backslash"),
        ("a\nb.txt", "control character"),
        ("aux.md", "reserved"),
        ("com1", "reserved"),
        (".git/config", "reserved"),
        ("a./b", "reserved"),
        ("a//b", "reserved"),
        ("a\u202eb.txt", "reserved"),
        ("x" * 300, "longer"),
        ("/".join("x" * 40), "deeper"),
        ("skill.md", "one name"),
        ("Scripts/other.py", "one name"),
        ("scripts", "two entries"),
    ],
)
@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_hostile_names_are_refused(
    tmp_path: Path, scratch: Path, name: str, reason: str, kind: str
) -> None:
    files = {**GOOD, name: "x"}
    write = write_zip if kind == "zip" else write_tar

    assert reason in refusal(write(tmp_path / f"a.{kind}", files))
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize("name", ["", "/", "//", ".", "./", "..", "../", "/.", "./."])
@pytest.mark.parametrize("kind", ["zip", "tgz"])
def test_a_name_without_any_letter_is_refused(
    tmp_path: Path, scratch: Path, name: str, kind: str
) -> None:
    if kind == "zip":
        path = write_unnamed(tmp_path / "a.zip", name)
    else:
        path = write_tar(tmp_path / "a.tgz", {**GOOD, name: "x"})

    assert "an entry called" in refusal(path)
    assert list(scratch.iterdir()) == []


def test_names_that_unicode_makes_one_are_refused(tmp_path: Path) -> None:
    files = {**GOOD, "\xe9.txt": "1", "e\u0301.txt": "2"}

    assert "one name" in refusal(write_zip(tmp_path / "a.zip", files))


def test_a_name_with_a_nul_is_refused(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "a.zip", {**GOOD, "aXb.txt": "1"})
    path.write_bytes(path.read_bytes().replace(b"aXb.txt", b"a\0b.txt"))

    assert "NUL" in refusal(path)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_an_entry_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    path = write_entry(tmp_path / "a.zip", zipfile.ZipInfo("SKILL.md"))
    twice = write_tar(tmp_path / "a.tgz", GOOD, tarfile.TarInfo("SKILL.md"))

    assert "two entries" in refusal(path)
    assert "two entries" in refusal(twice)


@pytest.mark.parametrize(
    "mode, reason",
    [(stat.S_IFLNK, "symbolic link"), (stat.S_IFCHR, "device"), (stat.S_IFIFO, "dev")],
)
def test_special_files_of_a_zip_are_refused(tmp_path: Path, mode: int, reason: str) -> None:
    entry = zipfile.ZipInfo("odd")
    entry.external_attr = (mode | 0o644) << 16

    assert reason in refusal(write_entry(tmp_path / "a.zip", entry))


@pytest.mark.parametrize(
    "kind, reason",
    [
        (tarfile.SYMTYPE, "symbolic link"),
        (tarfile.LNKTYPE, "hard link"),
        (tarfile.CHRTYPE, "device"),
        (tarfile.BLKTYPE, "device"),
        (tarfile.FIFOTYPE, "device"),
        (tarfile.GNUTYPE_SPARSE, "damaged"),
    ],
)
def test_special_files_of_a_tar_are_refused(tmp_path: Path, kind: bytes, reason: str) -> None:
    path = write_tar(tmp_path / "a.tar.gz", GOOD, special(kind, link="SKILL.md"))

    assert reason in refusal(path) or "device" in refusal(path)


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, b"X", b"L", b"K"])
def test_a_long_header_is_refused_before_it_is_parsed(tmp_path: Path, kind: bytes) -> None:
    path = write_header(tmp_path / "a.tgz", b"1" * 4_000_000, kind)

    assert "a header of more than 4,096 bytes" in refusal(path)


def test_a_header_of_a_sparse_file_is_refused(tmp_path: Path) -> None:
    path = write_header(tmp_path / "a.tgz", b"22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n")

    assert "holds a sparse file" in refusal(path)


def test_long_names_and_attributes_of_a_desktop_are_taken(tmp_path: Path) -> None:
    deep = "/".join(["documents-of-a-long-name"] * 20)
    path = write_tar(tmp_path / "a.tgz", {**GOOD, f"{deep}/a.txt": "x"})
    record = b"2027 SCHILY.xattr.com.apple.quarantine=" + b"q" * 1_987 + b"\n"

    with unpacked_package(path) as package:
        assert (f"{deep}/a.txt", 1) in package.files
    with unpacked_package(write_header(path, record)) as package:
        assert package.name == "pdf"


def test_bombs_are_refused(tmp_path: Path) -> None:
    zeros: dict[str, str | bytes] = {**GOOD, "zeros": bytes(8 * 1024 * 1024)}
    many = {**GOOD, **{f"f{n}": "" for n in range(limits.PACKAGE_LIMITS.entries)}}

    assert "times its size" in refusal(write_zip(tmp_path / "a.zip", zeros))
    assert "times its size" in refusal(write_tar(tmp_path / "a.tgz", zeros))
    assert "entries" in refusal(write_zip(tmp_path / "b.zip", many))
    assert "entries" in refusal(write_tar(tmp_path / "b.tgz", many))


@pytest.mark.parametrize("kind", ["zip", "tgz"])
def test_folders_that_only_a_path_implies_are_entries(
    tmp_path: Path, scratch: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = {f"{'/'.join([f'{n:x}'] * 32)}/f": "" for n in range(100)}
    write = write_zip if kind == "zip" else write_tar
    path = write(tmp_path / f"a.{kind}", {**GOOD, **deep})
    made: list[Path] = []
    monkeypatch.setattr(package_archive, "unpack_archive", lambda *_: made.append(scratch))

    assert "more than 2,000 entries" in refusal(path)
    assert made == []


def test_each_folder_of_an_archive_is_checked_once() -> None:
    folder = "/".join("abcdefgh" * 4)
    numbers: list[int] = []

    require_distinct_entries([f"{folder}/{n}" for n in range(2_000)], [folder], numbers.append)

    assert numbers == [*range(1, 2_000 + 32 + 1)]


def test_a_long_directory_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = {**GOOD, **{f"{n:0>200}": "" for n in range(5_000)}}
    path = write_zip(tmp_path / "a.zip", many)

    monkeypatch.delattr(zipfile, "ZipFile")

    assert "entries" in refusal(path)


def test_an_archive_may_have_a_comment(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "a.zip")
    with zipfile.ZipFile(path, "a") as archive:
        archive.comment = b"c" * 40  # the commit, as forges write it

    with unpacked_package(path) as package:
        assert package.name == "pdf"


def test_totals_are_bounded(tmp_path: Path) -> None:
    for path in (write_zip(tmp_path / "a.zip"), write_tar(tmp_path / "a.tgz")):
        for most, reason in (
            (limits.ArchiveLimits(10_000, 20, 10), "more than 20 bytes"),
            (limits.ArchiveLimits(10, 10_000, 10), "10 are allowed"),
            (limits.ArchiveLimits(10_000, 100_000, 1), "more than 1 entries"),
        ):
            with (
                pytest.raises(PackageRefusedError, match=reason),
                TemporaryDirectory() as scratch,
                limits.open_archive(path, Path(scratch), most),
            ):
                pass


def test_a_file_that_is_larger_than_it_says_is_refused(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "a.zip", {**GOOD, "z.txt": "y" * 77777})
    claimed, real = (5).to_bytes(4, "little"), (77777).to_bytes(4, "little")
    path.write_bytes(path.read_bytes().replace(real, claimed))

    assert "damaged" in refusal(path) or "more than it says" in refusal(path)


def test_an_encrypted_archive_is_refused(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "a.zip")
    data = bytearray(path.read_bytes())
    data[data.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(data)

    assert "password" in refusal(path)


@pytest.mark.parametrize("cut", [1, 10, 100])
@pytest.mark.parametrize("kind", ["zip", "tgz"])
def test_a_truncated_archive_is_refused(tmp_path: Path, cut: int, kind: str) -> None:
    path = (write_zip if kind == "zip" else write_tar)(tmp_path / f"a.{kind}")
    path.write_bytes(path.read_bytes()[:-cut])

    assert "damaged" in refusal(path) or "behind its end" in refusal(path)


def test_a_tar_without_its_end_is_refused(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "a.tgz")
    plain = gzip.decompress(path.read_bytes()).rstrip(b"\0")
    path.write_bytes(gzip.compress(plain + bytes(-len(plain) % 512)))

    assert "end is missing" in refusal(path)


@pytest.mark.parametrize(
    "change, reason",
    [
        (lambda data: b"#!/bin/sh\n" + data, "not what its name says"),
        (lambda data: data + b"#!/bin/sh\n", "behind its end"),
        (lambda data: b"PK\x03\x04" + bytes(60) + data, "before its first"),
    ],
)
def test_a_polyglot_is_refused(
    tmp_path: Path, change: Callable[[bytes], bytes], reason: str
) -> None:
    path = write_zip(tmp_path / "a.zip")
    path.write_bytes(change(path.read_bytes()))

    assert reason in refusal(path)


def test_data_behind_a_tar_is_refused(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "a.tgz")
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()) + b"more"))

    assert "behind its end" in refusal(path)


def test_a_name_that_lies_about_the_format_is_refused(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "a.tgz").rename(tmp_path / "a.zip")

    assert "not what its name says" in refusal(path)


@pytest.mark.parametrize(
    "files, reason",
    [
        ({"a.txt": "x"}, "no SKILL.md"),
        ({"a/b/SKILL.md": GOOD["SKILL.md"]}, "It has 'a/b/SKILL.md'"),
        ({"a/SKILL.md": "x", "b/SKILL.md": "x"}, "no SKILL.md at its top"),
        ({"SKILL.md": ""}, "description"),
        ({"SKILL.md": "---\ndescription: No name.\n---\nDo it."}, "name"),
        ({"SKILL.md": "---\nname: pdf\n---\nDo it."}, "description"),
    ],
)
def test_what_is_no_skill_is_refused(tmp_path: Path, files: dict[str, str], reason: str) -> None:
    assert reason in refusal(write_zip(tmp_path / "a.zip", files))


@given(st.data())
def test_a_changed_archive_is_taken_as_it_was_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("fuzz")
    kind = data.draw(st.sampled_from(["zip", "tgz"]))
    path = (write_zip if kind == "zip" else write_tar)(folder / f"a.{kind}")
    raw = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(raw) - 1))
        raw[place] = data.draw(st.integers(0, 255))
    if kind == "tgz" and data.draw(st.booleans()):
        raw = bytearray(gzip.decompress(write_tar(folder / "b.tgz").read_bytes()))
        raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
        raw = bytearray(gzip.compress(raw))
    path.write_bytes(raw)

    with suppress(PackageRefusedError), unpacked_package(path) as package:
        inside = package.folder.resolve()
        assert all(each.is_file() or each.is_dir() for each in inside.rglob("*"))
