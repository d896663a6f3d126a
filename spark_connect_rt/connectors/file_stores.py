"""Files in object stores and in local folders: the one door for connectors that read or write them.

`s3://`, `gs://`, `abfs://`, `file://` and plain paths. Clouds are reached by obstore, which is imported with the first
store. Every call raises errors of this package: RetriableError if the same call may succeed later, ConnectError if
a setting, a right or the store itself has to be changed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

import orjson

from spark_connect_rt.base.optional_package import optional_module
from spark_connect_rt.config.config_def import LOW, MEDIUM, ConfigDef, ConfigKey, Password, Type
from spark_connect_rt.errors import BadConfigError, ConnectError, RetriableError

EXTRA, USERS = "objects", "object stores"
NOTE = "connectrt"  # Azure takes only names that could be variables
CONNECT_TIMEOUT, TIMEOUT, RETRY_TIMEOUT = timedelta(seconds=5), timedelta(seconds=60), timedelta(seconds=10)
_ADDRESS = re.compile(r"https?://[\w.\-\[\]:%]+(/[\w.\-/%]*)?")
_S3, _GCS, _AZURE = "S3", "Google Cloud Storage", "Azure Blob Storage"
_KINDS = {"s3": _S3, "s3a": _S3, "s3n": _S3, "gs": _GCS, "gcs": _GCS, "abfs": _AZURE, "abfss": _AZURE}


def _address_problem(value: Any) -> str | None:
    if not value or _ADDRESS.fullmatch(value):
        return None
    return "must be an address such as http://minio:9000"


STORE_ACCESS = ConfigDef(
    [
        ConfigKey(
            "s3.region",
            Type.STRING,
            None,
            MEDIUM,
            "AWS region of the bucket. Not set: the environment's AWS_REGION, else us-east-1.",
        ),
        ConfigKey(
            "store.url",
            Type.STRING,
            None,
            MEDIUM,
            "Address of a store that is compatible with S3, such as http://minio:9000. Not set: AWS.",
            _address_problem,
        ),
        ConfigKey(
            "aws.access.key.id",
            Type.STRING,
            None,
            MEDIUM,
            "Access key. Not set: the environment's AWS_ACCESS_KEY_ID, else the role of the machine, pod or container.",
        ),
        ConfigKey("aws.secret.access.key", Type.PASSWORD, None, MEDIUM, "Secret of the access key."),
        ConfigKey("aws.session.token", Type.PASSWORD, None, LOW, "Session token of temporary credentials."),
        ConfigKey("s3.anonymous", Type.BOOLEAN, False, LOW, "Whether requests are not signed, for public buckets."),
        ConfigKey(
            "s3.path.style.access.enabled",
            Type.BOOLEAN,
            True,
            LOW,
            "Whether the bucket is a part of the path, as in https://host/bucket/key, or of the host's name.",
        ),
        ConfigKey(
            "gcs.credentials.path",
            Type.STRING,
            None,
            MEDIUM,
            "File of a service account's key. Not set: GOOGLE_APPLICATION_CREDENTIALS, else the role of the machine.",
        ),
        ConfigKey("gcs.credentials.json", Type.PASSWORD, None, LOW, "The service account's key itself, as JSON."),
        ConfigKey(
            "azblob.account.name",
            Type.STRING,
            None,
            MEDIUM,
            "Storage account, if the URI does not have the form abfs://container@account.dfs.core.windows.net/.",
        ),
        ConfigKey(
            "azblob.account.key",
            Type.PASSWORD,
            None,
            MEDIUM,
            "Key of the storage account. Not set: the environment's AZURE_* variables, else the managed identity.",
        ),
        ConfigKey("azblob.sas.token", Type.PASSWORD, None, LOW, "Shared access signature, instead of the key."),
    ]
)
"""The settings of the access to object stores, which connectors add to their own."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of a store: its key below the store's root, its size, when it was changed, and a text that every change
    of its content changes."""

    key: str
    size_bytes: int
    modified_ms: int
    version: str


Note = Mapping[str, Any]
"""A small JSON object that its creator keeps with a file. It is not part of the content."""


class FileStore(Protocol):
    """The files below one URI. Keys have slashes and no leading one. Calls may come from any thread, one at a time."""

    uri: str

    def files(self, folder: str) -> list[StoredFile]:
        """Return the files directly in a folder, in any order; empty: there is no such folder."""

    def find(self, key: str) -> StoredFile | None:
        """Return one file, None if there is none."""

    def read(self, key: str, start: int, size: int) -> bytes:
        """Return up to `size` bytes from byte `start` on. There are fewer only at the end of the file."""

    def create(self, key: str, data: bytes, note: Note) -> Note | None:
        """Write a whole file, if there is none of this key, with a note. Of several callers only one succeeds.

        Returns None if the file is there with this note: it was written now, or by an earlier call. Otherwise it
        returns the note of the file that exists, empty if it has none, and changes nothing.
        """

    def move(self, key: str, target: str) -> None:
        """Give a file another key, unless `target` exists. Can be repeated after a crash."""

    def delete(self, key: str) -> None:
        """Delete a file. Does nothing if there is none."""


def is_remote(uri: str) -> bool:
    """Return whether a path is the URI of an object store. `file://` is not."""
    return urlsplit(uri).scheme.lower() in _KINDS


def local_path(uri: str) -> str:
    """Return the path of a `file://` URI. A plain path is returned as it is."""
    if not uri.startswith("file:"):
        return uri
    return unquote(urlsplit(uri).path)


def uri_problem(uri: Any) -> str | None:
    """Return why a text is neither a path nor a URI of a known store, None if it is: a check of settings."""
    if not uri:
        return "must not be empty"
    found = urlsplit(uri)
    if "://" not in uri or found.scheme == "file":
        return None
    if found.scheme.lower() not in _KINDS:
        return f"{found.scheme}:// is not supported. Use s3://, gs://, abfs://, file:// or a path"
    return None if found.netloc else f"must name a bucket or container, such as {found.scheme}://bucket/folder"


def open_store(uri: str, config: Mapping[str, str]) -> FileStore:
    """Return the store whose root is `uri`. It connects with the first call.

    Args:
        uri: of a folder.
        config: of the connector. It reads the settings of `STORE_ACCESS`.

    Raises:
        BadConfigError: the settings are wrong.
        ConnectError: the package of the client is not installed.
    """
    if not is_remote(uri):
        return LocalStore(local_path(uri))
    return RemoteStore(uri, STORE_ACCESS.parse({name: config[name] for name in config if name in STORE_ACCESS}))


def split_uri(uri: str) -> tuple[str, str]:
    """Return the folder and the name of a file: `s3://b/in/a.csv` -> (`s3://b/in`, `a.csv`)."""
    folder, _, name = uri.rpartition("/")
    return folder or "/", name


# Local folders


class LocalStore:
    """A local folder. The note of a file is in a hidden file next to it, which readers of folders leave out."""

    def __init__(self, root: str) -> None:
        """Take the folder, which need not exist yet."""
        self.uri = root.rstrip("/") or "/"
        self._root = Path(root)

    def files(self, folder: str) -> list[StoredFile]:
        """Return the files of a folder."""
        with self._problems(folder, "cannot be listed"):
            try:
                with os.scandir(self._root / folder) as entries:
                    found = [(entry.name, entry.stat()) for entry in entries if entry.is_file()]
            except FileNotFoundError:
                return []
        prefix = f"{folder}/" if folder else ""
        return [_stored(prefix + name, status) for name, status in found]

    def find(self, key: str) -> StoredFile | None:
        """Return one file, None if there is none of this key."""
        with self._problems(key, "cannot be read"):
            try:
                return _stored(key, (self._root / key).stat())
            except FileNotFoundError:
                return None

    def read(self, key: str, start: int, size: int) -> bytes:
        """Return some bytes of a file."""
        with self._problems(key, "cannot be read"), (self._root / key).open("rb") as file:
            file.seek(start)
            return file.read(size)

    def create(self, key: str, data: bytes, note: Note) -> Note | None:
        """Create the hidden file with the note first: its creator decides what the file holds."""
        path = self._root / key
        hidden = path.with_name(f".{path.name}.note")
        with self._problems(key, "cannot be written"):
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists() and not hidden.exists():
                return {}  # another program's
            if not _create_whole(hidden, orjson.dumps(note)):
                found: Note = orjson.loads(hidden.read_bytes())
                if found != note:
                    return found
            _create_whole(path, data)
        return None

    def move(self, key: str, target: str) -> None:
        """Move a file by a link, which fails if the target exists."""
        place = self._root / target
        with self._problems(key, f"cannot be moved to {target}"):
            place.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileNotFoundError):
                os.link(self._root / key, place)
                (self._root / key).unlink()

    def delete(self, key: str) -> None:
        """Delete a file. A missing one is ignored."""
        with self._problems(key, "cannot be deleted"):
            (self._root / key).unlink(missing_ok=True)

    @contextlib.contextmanager
    def _problems(self, key: str, action: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            kind = ConnectError if error.errno in _LASTING else RetriableError
            raise kind(f"file {self.uri}/{key} {action}: {error.strerror or error}") from error


_LASTING = {
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.EEXIST,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.ENAMETOOLONG,
    errno.EINVAL,
}
"""Errors that last until their reason is removed. Others, such as a full disk, pass."""


def _stored(key: str, status: os.stat_result) -> StoredFile:
    changed_ns = status.st_mtime_ns
    return StoredFile(key, status.st_size, changed_ns // 1_000_000, f"{status.st_ino}-{changed_ns}-{status.st_size}")


def _create_whole(path: Path, data: bytes) -> bool:
    """Create a file with all of its bytes, durably. Returns False if there is one."""
    draft = path.with_name(f".{uuid.uuid4().hex}.draft")
    try:
        with draft.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, path)
        except FileExistsError:
            return False
    finally:
        draft.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return True


# Object stores


class RemoteStore:
    """A bucket or container, or a folder of it."""

    def __init__(self, uri: str, access: Mapping[str, Any]) -> None:
        """Take the URI and the typed settings. Raises BadConfigError, and ConnectError as `open_store`."""
        self.uri = uri.rstrip("/")
        place = urlsplit(uri)
        self._kind = _KINDS[place.scheme.lower()]
        self._client = optional_module("obstore", EXTRA, USERS)
        self._errors = optional_module("obstore.exceptions", EXTRA, USERS)
        self._missing = (FileNotFoundError, self._errors.NotFoundError)
        stores = optional_module("obstore.store", EXTRA, USERS)
        make = {_S3: _s3_options, _GCS: _gcs_options, _AZURE: _azure_options}[self._kind]
        kind = {_S3: "S3Store", _GCS: "GCSStore", _AZURE: "AzureStore"}[self._kind]
        container, options = make(place.netloc, access)
        try:
            self._store: Any = getattr(stores, kind)(
                container,
                prefix=unquote(place.path).strip("/") or None,
                client_options={
                    "allow_http": True,
                    "connect_timeout": CONNECT_TIMEOUT,
                    "timeout": TIMEOUT,
                },
                retry_config={"max_retries": 2, "retry_timeout": RETRY_TIMEOUT},
                **options,
            )
        except (self._errors.BaseError, ValueError, TypeError) as error:
            raise BadConfigError({"store.url": [f"{self._kind} cannot be used: {_first_line(error)}"]}) from error

    def files(self, folder: str) -> list[StoredFile]:
        """Return the files of a folder."""
        with self._problems(folder, "cannot be listed"):
            found = self._client.list_with_delimiter(self._store, folder or None)["objects"]
        return [_of_meta(meta) for meta in found]

    def find(self, key: str) -> StoredFile | None:
        """Return one file, None if there is none of this key."""
        with self._problems(key, "cannot be read"):
            try:
                return _of_meta(self._client.head(self._store, key))
            except self._missing as error:
                if _is_bucket(error):
                    raise
                return None

    def read(self, key: str, start: int, size: int) -> bytes:
        """Return some bytes of a file."""
        with self._problems(key, "cannot be read"):
            whole = self._client.head(self._store, key)["size"]
            end = min(start + size, whole)
            return b"" if end <= start else bytes(self._client.get_range(self._store, key, start=start, end=end))

    def create(self, key: str, data: bytes, note: Note) -> Note | None:
        """Put an object on the condition that there is none. The note is its metadata."""
        with self._problems(key, "cannot be written"):
            try:
                self._client.put(
                    self._store,
                    key,
                    data,
                    attributes={NOTE: orjson.dumps(note).decode()},
                    mode="create",
                    use_multipart=False,
                )
            except (self._errors.AlreadyExistsError, self._errors.PreconditionError):
                found = self._note(key)
                return None if found == note else found
        return None

    def _note(self, key: str) -> Note:
        attributes = self._client.get(self._store, key, options={"head": True}).attributes
        try:
            found = orjson.loads(attributes.get(NOTE) or "{}")
        except orjson.JSONDecodeError:
            return {}
        return found if isinstance(found, dict) else {}

    def move(self, key: str, target: str) -> None:
        """Copy an object, unless the target exists, and delete it."""
        with self._problems(key, f"cannot be moved to {target}"):
            try:
                if self.find(target) is None:  # S3 has no condition for copies
                    self._client.copy(self._store, key, target)
            except self._missing as error:
                if _is_bucket(error):
                    raise
                return
            self._client.delete(self._store, key)

    def delete(self, key: str) -> None:
        """Delete an object. A missing one is ignored."""
        with self._problems(key, "cannot be deleted"), contextlib.suppress(*self._missing):
            self._client.delete(self._store, key)

    @contextlib.contextmanager
    def _problems(self, key: str, action: str) -> Iterator[None]:
        try:
            yield
        except (self._errors.BaseError, OSError) as error:
            raise store_problem(f"{self.uri}/{key}".rstrip("/"), action, error) from error


def _of_meta(meta: Mapping[str, Any]) -> StoredFile:
    modified_ms = int(meta["last_modified"].timestamp() * 1000)
    version = meta.get("e_tag") or f"{modified_ms}-{meta['size']}"
    return StoredFile(meta["path"], meta["size"], modified_ms, version)


def _secret(value: Password | None) -> str | None:
    return None if value is None else value.value


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _s3_options(bucket: str, access: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    endpoint = access["store.url"]
    return bucket, _given(
        region=access["s3.region"] or (None if os.environ.get("AWS_REGION") else os.environ.get("AWS_DEFAULT_REGION")),
        endpoint=endpoint.rstrip("/") if endpoint else None,
        access_key_id=access["aws.access.key.id"],
        secret_access_key=_secret(access["aws.secret.access.key"]),
        session_token=_secret(access["aws.session.token"]),
        skip_signature=True if access["s3.anonymous"] else None,
        virtual_hosted_style_request=not access["s3.path.style.access.enabled"],
    )


def _gcs_options(bucket: str, access: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    return bucket, _given(
        service_account=access["gcs.credentials.path"], service_account_key=_secret(access["gcs.credentials.json"])
    )


def _azure_options(place: str, access: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    container, _, host = place.partition("@")
    account = host.partition(".")[0] or access["azblob.account.name"]
    if not account and not os.environ.get("AZURE_STORAGE_ACCOUNT_NAME"):
        raise BadConfigError(
            {"azblob.account.name": ["must be set, or the URI must be abfs://container@account.dfs.core.windows.net/"]}
        )
    return container, _given(
        account_name=account or None,
        account_key=_secret(access["azblob.account.key"]),
        sas_key=_secret(access["azblob.sas.token"]),
    )


# Errors


_CODE = re.compile(r"<Code>(\w+)</Code>")
_STATUS = re.compile(r"status(?: code)?:? ?(\d{3})|(?:client|server) error:? \(?(\d{3})|\b([45]\d{2}) [A-Z][a-z]+")
_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound", "The specified bucket does not exist")
_LOGIN = {
    "InvalidAccessKeyId": "the access key is unknown. Check aws.access.key.id",
    "SignatureDoesNotMatch": "the secret does not belong to the access key. Check aws.secret.access.key",
    "ExpiredToken": "the session token has expired. Renew aws.session.token",
    "InvalidToken": "the session token is invalid. Check aws.session.token",
    "AuthenticationFailed": "the credentials are wrong. Check azblob.account.key",
    "AccessDenied": "these credentials may not do that. Grant the permission, or use others",
}
_LATER = ("SlowDown", "ServiceUnavailable", "InternalError", "RequestTimeout", "ServerBusy", "OperationTimedOut")


def store_problem(uri: str, action: str, error: Exception) -> ConnectError:
    """Return the error to raise for an error of the client: RetriableError for one that passes.

    Args:
        uri: the file or folder.
        action: the failed operation, such as `cannot be read`.
        error: of obstore.
    """
    text = str(error)
    kind = type(error).__name__
    found = _CODE.search(text)
    code = found.group(1) if found else ""
    place = f"{uri} {action}"
    if any(word in text for word in _NO_BUCKET):
        return ConnectError(f"{place}: the bucket does not exist. Create it, or correct its name")
    if code in _LOGIN:
        return ConnectError(f"{place}: {_LOGIN[code]}")
    if kind in ("NotFoundError", "FileNotFoundError"):
        return ConnectError(f"{place}: it does not exist")
    if kind in ("UnauthenticatedError", "PermissionDeniedError"):
        return ConnectError(f"{place}: the credentials are missing or wrong, or do not allow it ({_first_line(error)})")
    if kind == "NotSupportedError" or "NotImplemented" in text:
        return ConnectError(f"{place}: the store does not support conditional writes, which exactly once needs")
    numbers = _STATUS.search(text)
    status = "" if numbers is None else next(filter(None, numbers.groups()), "")
    if code not in _LATER and status.startswith("4") and status not in ("408", "429"):
        return ConnectError(f"{place}: the store refuses the request ({code or _first_line(error)})")
    if kind in ("InvalidPathError", "UnknownConfigurationKeyError"):
        return ConnectError(f"{place}: {_first_line(error)}")
    return RetriableError(f"{place}: the store cannot be reached or does not answer ({code or _first_line(error)})")


def _is_bucket(error: Exception) -> bool:
    return any(word in str(error) for word in _NO_BUCKET)


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:300] if lines else type(error).__name__
