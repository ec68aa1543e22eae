"""The image, from base images that are pinned by digest: `image.py build TAG`; `image.py lock` reads the digests anew.

`requirements/images.json` holds for each argument of the Dockerfile the base image and its digest. Nothing is built
while a digest is missing: a tag may have moved since. Both commands need docker with buildx.
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
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")

Images = Mapping[str, Mapping[str, str]]
"""By argument of the Dockerfile: `image` with its tag, and `digest`."""


class NotPinned(Exception):
    """A base image has no digest; the message says which, and what to do."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="image.py", description="Build the image, or pin what it is built from.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("lock", help="read the digests of the base images and write requirements/images.json")
    commands.add_parser("build", help="build the image").add_argument("tag", help="registry.example/formulary:0.1.0")
    given = parser.parse_args()
    images = json.loads(LOCK.read_text())
    try:
        if given.command == "lock":
            LOCK.write_text(json.dumps(_pinned(images), indent=2) + "\n")
        else:
            subprocess.run(build_command(images, tag=given.tag), check=True, cwd=ROOT)
    except (NotPinned, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f"docker ended with {error.returncode}", file=sys.stderr)
        return 1
    return 0


def build_command(images: Images, *, tag: str) -> list[str]:
    """The command that builds the image. Raises NotPinned."""
    command = ["docker", "buildx", "build", "--load", "--tag", tag]
    for argument, base in images.items():
        if not _DIGEST.fullmatch(base["digest"]):
            raise NotPinned(
                f"{LOCK.relative_to(ROOT)} has no digest of {base['image']}; run `make base-images` where its registry "
                "can be reached, and commit the file"
            )
        command += ["--build-arg", f"{argument}={base['image']}@{base['digest']}"]
    return [*command, "."]


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
