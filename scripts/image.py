"""The image, from base images that are pinned by digest: `image.py build TAG`; `image.py lock` reads the digests anew.

`requirements/images.json` holds for each argument of the Dockerfile the base image and its digest. Nothing is built
while a digest is missing: a tag may have moved since. `image.py publish TAG` is for the release workflow: it builds for
all machines, pushes, and prints the image with its digest. All commands need docker with buildx.
"""

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements" / "images.json"
METADATA = ROOT / "build" / "image.json"
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_PUBLISHED = ["--push", "--platform", "linux/amd64,linux/arm64", "--provenance=mode=max"]

Images = Mapping[str, Mapping[str, str]]
"""By argument of the Dockerfile: `image` with its tag, and `digest`."""


class NotPinned(Exception):
    """A base image has no digest; the message says which, and what to do."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="image.py", description="Build the image, or pin what it is built from.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("lock", help="read the digests of the base images and write requirements/images.json")
    tag = "registry.example/formulary:0.1.0"
    commands.add_parser("build", help="build the image").add_argument("tag", help=tag)
    publishing = commands.add_parser("publish", help="build it for all machines, push it, print it with its digest")
    publishing.add_argument("tag", help=tag)
    publishing.add_argument("--source", required=True, help="the address of the repository")
    given = parser.parse_args()
    images = json.loads(LOCK.read_text())
    try:
        if given.command == "lock":
            LOCK.write_text(json.dumps(_pinned(images), indent=2) + "\n")
        elif given.command == "build":
            subprocess.run(build_command(images, "--load", tag=given.tag), check=True, cwd=ROOT)
        else:
            print(_publish(images, tag=given.tag, source=given.source))
    except (NotPinned, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f"docker ended with {error.returncode}", file=sys.stderr)
        return 1
    return 0


def build_command(images: Images, *options: str, tag: str) -> list[str]:
    """The command that builds the image. Raises NotPinned."""
    command = ["docker", "buildx", "build", *options, "--tag", tag]
    for argument, base in images.items():
        if not _DIGEST.fullmatch(base["digest"]):
            raise NotPinned(
                f"{LOCK.relative_to(ROOT)} has no digest of {base['image']}; run `make base-images` where its registry "
                "can be reached, and commit the file"
            )
        command += ["--build-arg", f"{argument}={base['image']}@{base['digest']}"]
    return [*command, "."]


def _publish(images: Images, *, tag: str, source: str) -> str:
    """Push the image; its repository with the digest of the list for all machines. Raises NotPinned."""
    METADATA.parent.mkdir(exist_ok=True)
    options = [*_PUBLISHED, "--metadata-file", str(METADATA), "--label", f"org.opencontainers.image.source={source}"]
    subprocess.run(build_command(images, *options, tag=tag), check=True, cwd=ROOT)
    digest = json.loads(METADATA.read_text())["containerimage.digest"]
    return f"{tag.rpartition(':')[0]}@{digest}"


def _pinned(images: Images) -> Images:
    return {argument: {"image": base["image"], "digest": _digest(base["image"])} for argument, base in images.items()}


def _digest(image: str) -> str:
    """The digest of the list of images for all kinds of machines, as the registry has it now."""
    command = ["docker", "buildx", "imagetools", "inspect", image, "--format", "{{json .Manifest}}"]
    found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)["digest"]
    if not _DIGEST.fullmatch(found):
        raise NotPinned(f"the registry gave {found!r} as the digest of {image}; look at it before you go on")
    return str(found)


if __name__ == "__main__":
    sys.exit(main())
