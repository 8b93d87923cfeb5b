"""The token and the certificate of one run, made for it alone; nothing of it lies on this machine's disk."""

from __future__ import annotations

import ipaddress
import itertools
import re
import secrets
import subprocess
from collections.abc import Sequence

from hopfeed.launch.errors import LaunchError

_DEADLINE = 60  # seconds
_DAYS = 30
# Names stand in a file: a command line has no room for those of 4,096 hosts.
_CONFIGURATION = """\
[req]
distinguished_name = subject
x509_extensions = extensions
prompt = no
[subject]
CN = hopfeed-launch
[extensions]
basicConstraints = critical, CA:TRUE
subjectKeyIdentifier = hash
subjectAltName = @hosts
[hosts]
"""
_BLOCK = re.compile(r"-----BEGIN ([A-Z ]+)-----.*?-----END \1-----\n", re.DOTALL)


def make_secrets(addresses: Sequence[str], *, tls: bool) -> dict[str, str]:
    """Files by name: ``token``, and with ``tls`` ``cert.pem``, which is its own authority and names all addresses, and ``key.pem``.

    Raises:
        LaunchError: there is no openssl, or it fails.
    """
    files = {"token": secrets.token_hex(32) + "\n"}
    if not tls:
        return files
    command = [
        "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", str(_DAYS),
        "-config", "/dev/stdin", "-keyout", "/dev/stdout", "-out", "/dev/stdout",
    ]  # fmt: skip
    configuration = _CONFIGURATION + "".join(map(_name, itertools.count(), addresses))
    try:
        done = subprocess.run(command, input=configuration, capture_output=True, text=True, timeout=_DEADLINE, check=False)
    except FileNotFoundError as error:
        raise LaunchError("there is no openssl here, which makes the run's certificate; install it, or do without TLS (--no-tls)") from error
    except OSError as error:
        raise LaunchError(f"cannot start openssl, which makes the run's certificate: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise LaunchError(f"openssl made no certificate within {_DEADLINE} s") from error
    blocks = {found[1]: found[0] for found in _BLOCK.finditer(done.stdout)}
    if done.returncode != 0 or set(blocks) != {"PRIVATE KEY", "CERTIFICATE"}:
        said = done.stderr.strip().splitlines()
        raise LaunchError(f"openssl made no certificate: {said[-1] if said else 'it gave no reason'}")
    return files | {"cert.pem": blocks["CERTIFICATE"], "key.pem": blocks["PRIVATE KEY"]}


def _name(number: int, address: str) -> str:
    """A line of the configuration's hosts."""
    try:
        return f"IP.{number} = {ipaddress.ip_address(address.partition('%')[0])}\n"
    except ValueError:
        return f"DNS.{number} = {address}\n"
