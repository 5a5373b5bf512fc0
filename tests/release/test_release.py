"""What a release publishes: it is whole, checked, and says where it comes from."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from typing import Any

import pytest

from release import metadata, run
from release.bundle import compose_manifest, write_bundle
from release.metadata import derive_registry_name, derive_urls, render_readme
from release.registry_entry import compose_entry
from release.run import ReleaseError, build_release
from skills_mcp.about import DISTRIBUTION, __version__
from tests.support import PROJECT

REPOSITORY = "https://github.com/acme/skills-mcp"


def read_metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        [name] = [n for n in archive.namelist() if n.endswith("/METADATA")]
        return message_from_bytes(archive.read(name))


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the packages, without the tools that come from other places."""
    folder = tmp_path_factory.mktemp("release") / "dist"
    patch = pytest.MonkeyPatch()
    with patch.context() as patched:
        patched.setattr(run, "_check_bundle", lambda _: None)
        patched.setattr(run, "_write_components", lambda *_: None)
        build_release(folder, REPOSITORY)
    return folder


def test_a_release_has_all_its_files_and_their_checksums(released: Path) -> None:
    names = {path.name for path in released.iterdir()}

    assert names == {
        "SHA256SUMS",
        "server.json",
        f"skills-mcp-{__version__}.mcpb",
        f"skills_mcp_server-{__version__}-py3-none-any.whl",
        f"skills_mcp_server-{__version__}.tar.gz",
    }
    rows = [line.split() for line in (released / "SHA256SUMS").read_text().splitlines()]
    assert {name for _, name in rows} == names - {"SHA256SUMS"}
    for digest, name in rows:
        assert hashlib.sha256((released / name).read_bytes()).hexdigest() == digest


def test_a_package_says_where_it_comes_from(released: Path) -> None:
    [wheel] = released.glob("*.whl")

    said = read_metadata(wheel)

    assert said["Name"] == DISTRIBUTION
    assert f"Repository, {REPOSITORY}" in said.get_all("Project-URL", [])
    text = said.get_payload()
    assert isinstance(text, str)
    assert text.startswith("<!-- mcp-name: io.github.acme/skills-mcp -->\n# skills-mcp")
    assert f"]({REPOSITORY}/blob/main/docs/how-to/connect-your-agent.md)" in text
    assert "](docs/" not in text


def test_the_source_of_a_release_builds_the_same_wheel(released: Path, tmp_path: Path) -> None:
    [source] = released.glob("*.tar.gz")
    [wheel] = released.glob("*.whl")
    with tarfile.open(source) as archive:
        archive.extractall(tmp_path / "source", filter="data")
    [folder] = (tmp_path / "source").iterdir()
    words = [sys.executable, "-m", "build", "--no-isolation", "--wheel", str(folder)]
    times = run._fixed_time()

    subprocess.run(
        words,
        check=True,
        capture_output=True,
        env=os.environ | {metadata.VARIABLE: REPOSITORY, **times},
    )

    [again] = (folder / "dist").glob("*.whl")
    assert again.read_bytes() == wheel.read_bytes()


def test_no_package_holds_what_is_for_this_machine_alone(released: Path) -> None:
    [source] = released.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]

    assert "src/skills_mcp/py.typed" in names
    assert "release/metadata.py" in names
    assert not [name for name in names if name.startswith((".venv", "dist", ".git/"))]


def test_a_bundle_holds_the_wheel_and_how_to_run_it(released: Path) -> None:
    [bundle] = released.glob("*.mcpb")
    [wheel] = released.glob("*.whl")

    with zipfile.ZipFile(bundle) as archive:
        manifest = json.loads(archive.read("manifest.json"))
        project = archive.read("pyproject.toml").decode()
        held = archive.read(wheel.name)
        program = archive.read(manifest["server"]["entry_point"])

    assert held == wheel.read_bytes()
    assert wheel.name in project
    assert b"main()" in program
    assert manifest["version"] == __version__
    assert manifest["server"]["mcp_config"]["env"]["SKILLS_REPO"] == ("${user_config.repository}")
    assert manifest["user_config"]["token"]["sensitive"] is True


def test_a_bundle_is_the_same_for_the_same_wheel(released: Path, tmp_path: Path) -> None:
    [wheel] = released.glob("*.whl")
    [bundle] = released.glob("*.mcpb")

    again = write_bundle(tmp_path, wheel, derive_urls(REPOSITORY))

    assert again.read_bytes() == bundle.read_bytes()


def test_a_picture_of_the_readme_is_shown_outside_of_the_repository() -> None:
    shown = f'<img src="{REPOSITORY}/raw/main/docs/a.webp">'

    assert shown in render_readme('<img src="docs/a.webp">', REPOSITORY)


def test_without_a_repository_nothing_names_one() -> None:
    assert derive_urls("") == {}
    assert render_readme("[a](b.md)", "") == "[a](b.md)"
    assert "repository" not in compose_manifest({})


@pytest.mark.parametrize(
    "repository,name",
    [
        (REPOSITORY, "io.github.acme/skills-mcp"),
        ("https://gitlab.example.com/acme/skills-mcp", ""),
        ("https://github.com/acme", ""),
        ("", ""),
    ],
)
def test_the_registry_knows_owners_on_github(repository: str, name: str) -> None:
    assert derive_registry_name(repository) == name


def test_an_entry_of_the_registry_names_what_the_release_has(released: Path) -> None:
    entry: dict[str, Any] = json.loads((released / "server.json").read_text())
    [bundle] = released.glob("*.mcpb")
    digest = hashlib.sha256(bundle.read_bytes()).hexdigest()

    package, packed = entry["packages"]
    assert entry == compose_entry(REPOSITORY, digest)
    assert (package["identifier"], package["version"]) == (DISTRIBUTION, __version__)
    assert packed["identifier"].endswith(f"/v{__version__}/{bundle.name}")
    assert len(entry["description"]) <= 100


def test_an_entry_that_the_registry_would_refuse_is_no_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compose_wrong(*_: str) -> dict[str, Any]:
        return compose_entry(REPOSITORY, "0" * 64) | {"version": "latest"}

    monkeypatch.setattr(run, "compose_entry", compose_wrong)
    bundle = tmp_path / "a.mcpb"
    bundle.touch()

    with pytest.raises(ReleaseError, match="skillsaw"):
        run._write_entry(tmp_path, REPOSITORY, bundle)


def test_a_tag_of_another_version_is_no_release(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match=r"v9\.9\.9 is not v"):
        build_release(tmp_path / "dist", tag="v9.9.9")


def test_what_went_wrong_is_said_and_ends_with_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        run.main(["--to", str(tmp_path / "dist"), "--tag", "v9.9.9"])

    assert ended.value.code == 1
    assert "v9.9.9" in capsys.readouterr().err


def test_the_image_has_what_the_build_of_the_package_needs() -> None:
    text = (PROJECT / "deploy" / "Containerfile").read_text()

    assert "COPY release/metadata.py release/metadata.py" in text


@pytest.mark.parametrize("name", ["ci.yml", "documentation.yml", "release.yml"])
def test_a_workflow_is_one_that_github_understands(name: str) -> None:
    words = ["check-jsonschema", "--builtin-schema", "vendor.github-workflows"]
    program = Path(sys.executable).with_name(words[0])
    file = PROJECT / ".github" / "workflows" / name

    done = subprocess.run([program, *words[1:], file], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout


@pytest.mark.conformance
@pytest.mark.skipif(not shutil.which("npx"), reason="npm is not installed")
def test_the_tool_of_the_format_accepts_the_bundle(released: Path) -> None:
    [bundle] = released.glob("*.mcpb")

    run._check_bundle(bundle)
