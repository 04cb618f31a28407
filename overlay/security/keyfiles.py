"""Files of certificates and keys: read with their checks, written with the right modes.

Every file is written whole under another name first and then renamed, so a reader, a live broker
above all, sees the old content or the new, never a part.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from overlay.errors import IdentityError
from overlay.security.regular_file import read_regular
from overlay.wording import why_no_folder

IDENTITY_CERTIFICATE = "identity.crt"
IDENTITY_KEY = "identity.key"
AUTHORITY_CERTIFICATE = "authority.crt"
AUTHORITY_KEY = "authority.key"
REVOKED = "revoked.crl"  #: the newest list of revoked certificates that is known here

MAX_FILE_BYTES = 1024 * 1024  #: far more than a key, certificates or a list of revoked ones take

_LOCK = "lock"


def file_names(directory: Path, *, mend: str) -> set[str]:
    """Return the names in a folder.

    Raises:
        IdentityError: it is missing, no folder, or unreadable.
    """
    try:
        return set(os.listdir(directory))
    except OSError as error:
        raise unusable(directory, error, mend) from error


def read_certificate(path: Path, *, mend: str) -> x509.Certificate:
    """Read a file that holds one PEM certificate.

    Raises:
        IdentityError: as :func:`read_certificates`, or there are several.
    """
    return read_certificates(path, most=1, mend=mend)[0]


def read_certificates(path: Path, *, most: int, mend: str) -> list[x509.Certificate]:
    """Read a file that holds PEM certificates, at most ``most``.

    Raises:
        IdentityError: the file is missing, unreadable, no regular one, too large, holds no
            certificate, more than ``most`` (TLS would trust them all), or one of another kind than
            Ed25519.
    """
    try:
        found = x509.load_pem_x509_certificates(_read(path)[0])
        keys = [certificate.public_key() for certificate in found]
    except OSError as error:
        raise unusable(path, error, mend) from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise IdentityError(f"{path}: not a PEM certificate; {mend}") from error
    if len(found) > most or not all(isinstance(key, Ed25519PublicKey) for key in keys):
        count = "a single" if most == 1 else f"{most} at most, each an"
        raise IdentityError(f"{path}: not {count} Ed25519 certificate; {mend}")
    return found


def read_revoked(path: Path) -> tuple[bytes, bytes] | None:
    """Return the list of revoked identities in a file, and its voucher; None if there is no file.

    Neither is checked: :func:`overlay.security.revocation.check_list` does that.

    Raises:
        IdentityError: the file is unreadable, or no PEM.
    """
    mend = "take it anew from the authority's folder, or remove it"
    try:
        pem, _ = _read(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unusable(path, error, mend) from error
    try:
        crl = x509.load_pem_x509_crl(pem).public_bytes(Encoding.DER)
        vouchers = (
            x509.load_pem_x509_certificates(pem) if b"-----BEGIN CERTIFICATE-----" in pem else []
        )
    except ValueError as error:
        raise IdentityError(f"{path}: not a PEM list of revoked identities; {mend}") from error
    return crl, b"".join(voucher.public_bytes(Encoding.DER) for voucher in vouchers[:1])


def check_key(path: Path, certificate: x509.Certificate, *, mend: str) -> Ed25519PrivateKey:
    """Read the private key that belongs to ``certificate``.

    Raises:
        IdentityError: the file is missing, open to group or others, no Ed25519 key, or the key of
            another certificate.
    """
    try:
        pem, mode = _read(path)
    except OSError as error:
        raise unusable(path, error, mend) from error
    excess = _excess(path, mode, 0o077)
    if excess is not None:
        raise IdentityError(excess)
    try:
        key = load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        # Without its cause: a parser's complaint may quote what it could not parse.
        raise IdentityError(f"{path}: not an unencrypted PEM private key; {mend}") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise IdentityError(f"{path}: not an Ed25519 key; {mend}")
    if key.public_key() != certificate.public_key():
        raise IdentityError(f"{path}: does not match the certificate beside it; {mend}")
    return key


def check_validity(path: Path, certificate: x509.Certificate, now: datetime, *, mend: str) -> None:
    """Check that a certificate is in force at ``now``.

    Raises:
        IdentityError: it has expired, or begins later.
    """
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if now < begin:
        raise IdentityError(f"{path}: not valid before {begin:%Y-%m-%d %H:%M} UTC; set the clock")
    if now > end:
        raise IdentityError(f"{path}: expired on {end:%Y-%m-%d %H:%M} UTC; {mend}")


def unusable(path: Path, error: OSError, mend: str) -> IdentityError:
    """Put the operating system's complaint about ``path`` into words for the user."""
    if isinstance(error, PermissionError):
        mend = "run as the user who owns it"
    return IdentityError(f"{path}: {why_no_folder(error)}; {mend}")


def _read(path: Path) -> tuple[bytes, int]:
    return read_regular(path, MAX_FILE_BYTES)


def _mode(path: Path) -> int:
    try:
        return path.stat().st_mode
    except OSError as error:
        raise unusable(path, error, "see who owns it") from error


def _excess(path: Path, mode: int, forbidden: int) -> str | None:
    """Return a complaint when ``mode`` grants any of the ``forbidden`` permissions."""
    mode = stat.S_IMODE(mode)
    if not mode & forbidden:
        return None
    verb = "writable by" if forbidden == 0o022 else "open to"
    return f"{path}: {verb} group or others; chmod {mode & ~forbidden:o} {path}"


def writable_by_others(folder: Path) -> str | None:
    """Return a complaint where others than its owner may write into a folder.

    Raises:
        OSError: it cannot be looked at.
    """
    return _excess(folder, folder.stat().st_mode, 0o022)


def permission_warnings(directory: Path) -> list[str]:
    """Say, a line each, which files of an identity or authority are open to too many.

    Raises:
        IdentityError: the folder cannot be read.
    """
    names = file_names(directory, mend="name an identity's or authority's folder")
    limits = {
        directory: 0o077,
        directory / IDENTITY_KEY: 0o077,
        directory / AUTHORITY_KEY: 0o077,
        directory / REVOKED: 0o022,
        directory / IDENTITY_CERTIFICATE: 0o022,
        directory / AUTHORITY_CERTIFICATE: 0o022,
    }
    present = (path for path in limits if path == directory or path.name in names)
    found = (_excess(path, _mode(path), limits[path]) for path in present)
    return [warning for warning in found if warning is not None]


def write_new(directory: Path, files: Mapping[str, bytes]) -> None:
    """Write new files into a folder, all of them or none; nothing is overwritten.

    Raises:
        IdentityError: a file is there already, others may write into the folder, or the
            operating system refuses.
    """
    mend = "name a folder of your own"
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise unusable(directory, error, mend) from error
    _check_folder(directory, mend, f", or {mend}")
    with ExitStack() as undo:
        for name, content in files.items():
            path = directory / name
            try:
                _create(path, content)
            except FileExistsError as error:
                raise IdentityError(
                    f"{path}: exists already and is not overwritten; name another folder"
                ) from error
            except OSError as error:
                raise unusable(path, error, mend) from error
            undo.callback(path.unlink, missing_ok=True)
        undo.pop_all()


def replace_files(directory: Path, files: Mapping[str, bytes]) -> None:
    """Replace files in a folder, or make them; each is seen old or new, never in part.

    They are all on disk before the first takes its place, so a full disk changes nothing.

    Raises:
        IdentityError: others may write into the folder, or the operating system refuses.
    """
    mend = "see who owns it, and whether the disk is full"
    _check_folder(directory, mend)
    fresh: dict[Path, Path] = {}
    try:
        for name, content in files.items():
            path = directory / name
            fresh[path] = directory / f".{name}.{secrets.token_hex(4)}"
            _create(fresh[path], content)
        for path, new in fresh.items():
            os.replace(new, path)
        _sync(directory)
    except OSError as error:
        raise unusable(directory, error, mend) from error
    finally:
        for new in fresh.values():
            with contextlib.suppress(OSError):
                new.unlink(missing_ok=True)


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Keep other processes from changing the folder meanwhile.

    Raises:
        IdentityError: the operating system refuses.
    """
    path = directory / _LOCK
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise unusable(path, error, "see who owns it") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def certificates_pem(*certificates: x509.Certificate) -> bytes:
    """Return certificates as they stand in a file."""
    return b"".join(certificate.public_bytes(Encoding.PEM) for certificate in certificates)


def key_pem(key: Ed25519PrivateKey) -> bytes:
    """Return a private key as it stands in a file: not encrypted; the file's mode protects it."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _check_folder(directory: Path, mend: str, other_mend: str = "") -> None:
    try:
        mode = directory.stat().st_mode
    except OSError as error:
        raise unusable(directory, error, mend) from error
    excess = _excess(directory, mode, 0o022)
    if excess is not None:
        raise IdentityError(excess + other_mend)


def _create(path: Path, content: bytes) -> None:
    # O_EXCL also refuses a symbolic link, so no file elsewhere can be written through.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(descriptor)
    except OSError:
        path.unlink(missing_ok=True)
        raise


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
