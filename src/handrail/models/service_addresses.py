"""Where a service is that has no one address: Azure has one for each resource, Vertex AI one for each project.

A place is made from the options that name it, or from the variables that Azure's and Google's own tools read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from typing import Any
from urllib.parse import quote, urlsplit

from msgspec import Struct

from handrail.core.errors import UsageError

_MULTI_REGIONS = ("us", "eu")
_GOOGLE = "https://aiplatform.googleapis.com"


class CloudEndpoint(Struct, frozen=True):
    base_url: str
    query: Mapping[str, str] = {}
    is_own: bool = True
    """Whether it is the service's own address, to which the key of the environment may go."""


Locate = Callable[[str, str | None, MutableMapping[str, Any], Mapping[str, str]], CloudEndpoint]
"""Given the model, base_url, the options (it takes out those that are its own) and the environment."""


def azure_endpoint(
    model: str, base_url: str | None, options: MutableMapping[str, Any], environ: Mapping[str, str]
) -> CloudEndpoint:
    """The v1 address of a resource; with a dated `api_version`, the older address of one deployment.

    `base_url` is the address of the resource, or a whole address with its path.
    """
    resource, version = options.pop("resource", None), options.pop("api_version", None)
    if base_url is not None and resource is not None:
        raise UsageError("azure is given an address twice, as base_url= and as resource=; keep one")
    root = base_url or (f"https://{resource}.openai.azure.com" if resource else environ.get("AZURE_OPENAI_ENDPOINT"))
    if not root:
        raise UsageError(
            "azure needs its address: resource='NAME', base_url='https://NAME.openai.azure.com', "
            "or the environment variable AZURE_OPENAI_ENDPOINT"
        )
    root = root.rstrip("/")
    query = {"api-version": version} if version else {}
    if not urlsplit(root).path:
        dated = version is not None and version[:1].isdigit()
        root += f"/openai/deployments/{quote(model, safe='')}" if dated else "/openai/v1"
    return CloudEndpoint(root, query, is_own=base_url is None)


def vertex_endpoint(publisher: str, version: str) -> Locate:
    """The address of the models of a publisher, in a project and a location."""

    def place(
        model: str, base_url: str | None, options: MutableMapping[str, Any], environ: Mapping[str, str]
    ) -> CloudEndpoint:
        project = options.pop("project", None) or environ.get("GOOGLE_CLOUD_PROJECT")
        location = options.pop("location", None) or environ.get("GOOGLE_CLOUD_LOCATION") or "global"
        if base_url is not None:
            return CloudEndpoint(base_url, is_own=False)
        if not project:
            raise UsageError("vertex needs a project: project='NAME', or the environment variable GOOGLE_CLOUD_PROJECT")
        if not location.replace("-", "").isalnum():
            raise UsageError(f"{location!r} is not a location of Google Cloud; write it as 'europe-west4' or 'global'")
        host = _GOOGLE
        if location in _MULTI_REGIONS:
            host = f"https://aiplatform.{location}.rep.googleapis.com"
        elif location != "global":
            host = f"https://{location}-aiplatform.googleapis.com"
        where = f"projects/{quote(project, safe=':')}/locations/{location}/publishers/{publisher}"
        return CloudEndpoint(f"{host}/{version}/{where}")

    return place
