"""What a process needs to be a client of an emulator, and of nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.hub.emulator.accounts import SECRET

_NOBODY = """-----BEGIN CERTIFICATE-----
MIIBcjCCARmgAwIBAgIUXaVReznGPznXXMm5oB9QpbSLRvowCgYIKoZIzj0EAwIw
DzENMAsGA1UEAwwEbm9uZTAeFw0yNjExMzAxOTM3NTlaFw0zNjExMjcxOTM3NTla
MA8xDTALBgNVBAMMBG5vbmUwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAS8wrwP
ELPnIt4BF6AXIgQ2YmrqEkz5R5H9t6qWXoD9KfaN/MK9rdkmY4JqMYfHmTWqVdWu
wi7XL8tVQ5uILf/co1MwUTAdBgNVHQ4EFgQUgfVQJ+ZMbbz5jD6OvsYHx54AFFUw
HwYDVR0jBBgwFoAUgfVQJ+ZMbbz5jD6OvsYHx54AFFUwDwYDVR0TAQH/BAUwAwEB
/zAKBggqhkjOPQQDAgNHADBEAiAl+i0Is70Fpv9QCQojLjW4KriPWtoTKGYMRusL
gJ8qrwIgFspAhO9jjhupVq+mHoPxKkFaIzcAagSFcBrsjCmqx0c=
-----END CERTIFICATE-----
"""
"""The one authority that a client trusts, and there is no key of it: hf_xet reads all authorities of the machine at
each commit, which takes three times as long as the commit itself."""


def environment(folder: Path, *, endpoint: str, token: str, access_key: str | None) -> dict[str, str]:
    """The variables of a client.

    Args:
        folder: empty; for what the client keeps.
        endpoint: of the Hub.
        token: of the Hub.
        access_key: of the gateway, if there is one.
    """
    authority = folder / "authority.pem"
    authority.write_text(_NOBODY)
    (folder / "authorities").mkdir()
    credentials = {} if access_key is None else {"AWS_ACCESS_KEY_ID": access_key, "AWS_SECRET_ACCESS_KEY": SECRET}
    return {
        "HF_ENDPOINT": endpoint,
        "HF_TOKEN": token,
        "HF_HOME": str(folder / "home"),
        "HF_XET_CACHE": str(folder / "xet"),
        **_QUIET,
        "SSL_CERT_FILE": str(authority),
        "SSL_CERT_DIR": str(folder / "authorities"),
        **credentials,
        **_GATEWAY,
        "NO_PROXY": "127.0.0.1,localhost",
        "no_proxy": "127.0.0.1,localhost",
    }


_QUIET: Mapping[str, str] = {
    "HF_XET_CLIENT_RETRY_BASE_DELAY": "20ms",
    "HF_XET_TELEMETRY_ENABLED": "0",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_UPDATE_CHECK": "1",
}
_GATEWAY: Mapping[str, str] = {
    "AWS_REGION": "us-east-1",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_REQUEST_CHECKSUM_CALCULATION": "when_required",
    "AWS_RESPONSE_CHECKSUM_VALIDATION": "when_required",
    "AWS_CONFIG_FILE": "/dev/null",
    "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
    "AWS_EC2_METADATA_DISABLED": "true",
}
