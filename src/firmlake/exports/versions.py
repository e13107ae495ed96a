"""Delete the earlier versions of objects in a bucket that keeps versions."""

from __future__ import annotations

from urllib.parse import urlsplit

from firmlake.core.errors import FirmlakeError

__all__ = ["delete_versions"]

_S3 = ("s3", "s3a")
_RULE = "delete them with a lifecycle rule for noncurrent versions"


def delete_versions(url: str) -> str:
    """Delete all versions below an address except the current ones, and the markers of deleted objects.

    Args:
        url: An address in an object store, or a folder, which keeps no versions.

    Returns:
        A sentence about versions that may be left; an empty text if there are none.

    Raises:
        FirmlakeError: The store refuses to list or delete versions.
    """
    scheme, separator, _ = url.partition("://")
    if not separator:
        return ""
    if scheme not in _S3:
        return f"If the bucket of {url} keeps old versions or deleted objects, {_RULE}"
    try:
        import boto3
        from botocore.exceptions import BotoCoreError, ClientError
    except ImportError:
        install = "`pip install 'firmlake[versions]'` and run `firmlake forget` again"
        return f"If the bucket of {url} keeps old versions: {install}, or {_RULE}"
    parts = urlsplit(url)
    try:
        client = boto3.client("s3")
        pages = client.get_paginator("list_object_versions").paginate(
            Bucket=parts.netloc, Prefix=f"{parts.path.strip('/')}/".lstrip("/")
        )
        for page in pages:
            for each in (*page.get("Versions", ()), *page.get("DeleteMarkers", ())):
                if each in page.get("DeleteMarkers", ()) or not each["IsLatest"]:
                    client.delete_object(Bucket=parts.netloc, Key=each["Key"], VersionId=each["VersionId"])
    except (BotoCoreError, ClientError) as error:
        raise FirmlakeError(
            f"Old versions in {url} cannot be deleted: {str(error).partition('?')[0][:200]}",
            f"Allow s3:ListBucketVersions and s3:DeleteObjectVersion, or {_RULE}",
        ) from None
    return ""
