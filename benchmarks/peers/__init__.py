"""Other systems' layouts, written anew from their public descriptions, to measure Deltawire against.

What is here is the bytes that each puts on the wire and the plainest fast way to make and apply them with NumPy and
zstd; none of it is those systems' own code, and none of it is needed by Deltawire.
"""

from benchmarks.peers.base import Bits16, Peer, State
from benchmarks.peers.full import FullPeer
from benchmarks.peers.grail import GrailPeer
from benchmarks.peers.nemo import NemoPeer
from benchmarks.peers.own import OWN_PEERS
from benchmarks.peers.slime import SlimeOverwritePeer, SlimeXorPeer
from benchmarks.peers.sparrow import SparrowPeer
from benchmarks.peers.trl import TrlBlogPeer, TrlGapPeer

PEERS: dict[str, Peer] = {
    peer.name: peer
    for peer in (
        FullPeer(),
        FullPeer(level=1),
        TrlBlogPeer(),
        TrlGapPeer(),
        SlimeOverwritePeer(),
        SlimeXorPeer(),
        GrailPeer(),
        SparrowPeer(),
        NemoPeer(),
        *OWN_PEERS,
    )
}
"""By name, as they are shown."""

__all__ = ["PEERS", "Bits16", "Peer", "State"]
