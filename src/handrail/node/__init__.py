"""A node: the capability bus and everything that reaches it: tokens, NATS, HTTP, gateways, services.

Names are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from handrail.core.lazy_names import export_lazily

if TYPE_CHECKING:
    from handrail.node.bus.descriptor import CapabilityDescriptor as CapabilityDescriptor
    from handrail.node.bus.request import NOBODY as NOBODY, Caller as Caller, RouteRequest as RouteRequest
    from handrail.node.bus.stream_frame import StreamFrame as StreamFrame
    from handrail.node.capability_bus import CapabilityBus as CapabilityBus
    from handrail.node.capability_tools import wire_error as wire_error
    from handrail.node.chat.tool_executor import ToolExecutor as ToolExecutor
    from handrail.node.gateways.gateway import Gateway as Gateway, GatewayModel as GatewayModel
    from handrail.node.http.bus import HttpBus as HttpBus, HttpPace as HttpPace
    from handrail.node.nats.bus import NatsBus as NatsBus
    from handrail.node.nats.door import NatsDoor as NatsDoor
    from handrail.node.nats.pace import NatsPace as NatsPace
    from handrail.node.nats.tls import tls_options as tls_options
    from handrail.node.nats.worker import serve_worker as serve_worker
    from handrail.node.server.node import NodeServer as NodeServer
    from handrail.node.server.serving import serve as serve
    from handrail.node.services.apertium import ApertiumBackend as ApertiumBackend
    from handrail.node.services.auth import AuthService as AuthService
    from handrail.node.services.blobs import BlobService as BlobService, BlobStore as BlobStore
    from handrail.node.services.chat import ChatService as ChatService
    from handrail.node.services.event_log import EventLog as EventLog
    from handrail.node.services.img.service import ImgService as ImgService
    from handrail.node.services.llm.service import LlmService as LlmService
    from handrail.node.services.market import MarketService as MarketService
    from handrail.node.services.peers import PeersService as PeersService
    from handrail.node.services.rag.index import DocumentIndex as DocumentIndex
    from handrail.node.services.rag.service import RagService as RagService
    from handrail.node.services.stt.service import SttService as SttService
    from handrail.node.services.translation import ModelBackend as ModelBackend, TransService as TransService
    from handrail.node.tokens.admission import TokenAdmission as TokenAdmission
    from handrail.node.tokens.identity import Identity as Identity
    from handrail.node.tokens.scope import Scope as Scope
    from handrail.node.tokens.signatures import Authenticator as Authenticator, sign_call as sign_call
    from handrail.node.tokens.token import issue as issue
    from handrail.node.tokens.token_store import TokenStore as TokenStore

export_lazily(
    __name__,
    {
        "handrail.node.bus.descriptor": "CapabilityDescriptor",
        "handrail.node.bus.request": "Caller NOBODY RouteRequest",
        "handrail.node.bus.stream_frame": "StreamFrame",
        "handrail.node.capability_bus": "CapabilityBus",
        "handrail.node.capability_tools": "wire_error",
        "handrail.node.chat.tool_executor": "ToolExecutor",
        "handrail.node.gateways.gateway": "Gateway GatewayModel",
        "handrail.node.http.bus": "HttpBus HttpPace",
        "handrail.node.nats.bus": "NatsBus",
        "handrail.node.nats.door": "NatsDoor",
        "handrail.node.nats.pace": "NatsPace",
        "handrail.node.nats.tls": "tls_options",
        "handrail.node.nats.worker": "serve_worker",
        "handrail.node.server.node": "NodeServer",
        "handrail.node.server.serving": "serve",
        "handrail.node.services.apertium": "ApertiumBackend",
        "handrail.node.services.auth": "AuthService",
        "handrail.node.services.blobs": "BlobService BlobStore",
        "handrail.node.services.chat": "ChatService",
        "handrail.node.services.event_log": "EventLog",
        "handrail.node.services.img.service": "ImgService",
        "handrail.node.services.llm.service": "LlmService",
        "handrail.node.services.market": "MarketService",
        "handrail.node.services.peers": "PeersService",
        "handrail.node.services.rag.index": "DocumentIndex",
        "handrail.node.services.rag.service": "RagService",
        "handrail.node.services.stt.service": "SttService",
        "handrail.node.services.translation": "ModelBackend TransService",
        "handrail.node.tokens.admission": "TokenAdmission",
        "handrail.node.tokens.identity": "Identity",
        "handrail.node.tokens.scope": "Scope",
        "handrail.node.tokens.signatures": "Authenticator sign_call",
        "handrail.node.tokens.token": "issue",
        "handrail.node.tokens.token_store": "TokenStore",
    },
)
