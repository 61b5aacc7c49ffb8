"""Everything is measured on the project's own emulator (``tests.hub.emulator``), nothing on the Hub itself.

Counts are those of the clients, times those of this machine, where nothing has to travel.
"""

from collections.abc import Iterator

from benchmarks.hub.collecting import VERSIONS as COLLECTED
from benchmarks.hub.collecting import collect
from benchmarks.hub.emulated import PINS, WAYS, Tally, Way
from benchmarks.hub.party import CHANGED, Options
from benchmarks.hub.peaks import MODEL_BYTES, peaks
from benchmarks.hub.round_trips import DELAY, round_trips
from benchmarks.hub.shipping import Asked, Paced, ship, ship_at_a_pace
from benchmarks.model import Figure

API_LIMIT = 1000
RESOLVE_LIMIT = 5000
"""Of a free account in five minutes, as the Hub documents them."""
_WINDOW = 300.0
_PACE = 2.0
"""Seconds from version to version of the trainer whose calls are compared with the limits."""
_MANY = Options(tensors=64, part_bytes=1 << 12)
_FOLLOWERS = (1, 8)
_QUICK = 0.5
_VERSIONS: dict[Way, int] = {"emulated Hub API": 20, "emulated S3 gateway": 10}
_RESTING: tuple[Way, int] = ("emulated Hub API", _FOLLOWERS[-1])
_REST_SECONDS = 40.0
"""After so long followers look no more often than the store's own interval says."""
_IDLE_SECONDS = 20.0
"""Of each follower one renewal of its pin falls into this time."""
MB = 1e6


def run() -> list[Figure]:
    asked = {way: ship(way, versions=6, options=Options()) for way in WAYS}
    many = ship("emulated Hub API", versions=3, options=_MANY)
    paced = {
        (way, count): ship_at_a_pace(
            way,
            followers=count,
            versions=_VERSIONS[way],
            every=_QUICK,
            rest_seconds=_REST_SECONDS if (way, count) == _RESTING else 0.0,
            idle_seconds=_IDLE_SECONDS if (way, count) == _RESTING else 0.0,
        )
        for way in WAYS
        for count in _FOLLOWERS
    }
    slow = ship_at_a_pace("emulated Hub API", followers=1, versions=4, every=_PACE)
    idle = paced[_RESTING]
    return [
        *(figure for way in WAYS for figure in _each(way, asked[way])),
        *_each("emulated Hub API", many),
        *(_at_a_pace(way, found, asked[way]) for (way, _), found in paced.items()),
        *_idle(idle),
        *_collecting(),
        *_limits(asked["emulated Hub API"], slow, idle),
        *(_latency(way) for way in WAYS),
        *_memory(),
    ]


def _each(way: Way, found: Asked) -> Iterator[Figure]:
    """What is asked for one version, by the publisher and by a follower."""
    parts = f"{found.data_bytes / MB:.2f} MB in {found.parts} part{'s' * (found.parts > 1)}"
    for who, tally, seconds in (
        ("published", found.published, found.publish_seconds),
        ("followed", found.followed, found.follow_seconds),
    ):
        yield {
            "figure": f"{way}: a version of {found.parts} part{'s' * (found.parts > 1)}, {who}",
            "value": _main(way, tally, found.versions),
            "note": f"{_details(way, tally, found.versions)}; {parts}; {seconds * 1e3:.0f} ms",
            "data": {kind: tally.count(kind) / found.versions for kind in ("api", "resolve", "cas", "bytes", "s3")},
        }


def _main(way: Way, tally: Tally, versions: int) -> str:
    if way == "emulated S3 gateway":
        return f"{tally.count('s3') / versions:.1f} requests"
    return f"{tally.count('api') / versions:.1f} API calls, {tally.count('resolve') / versions:.1f} resolved"


def _details(way: Way, tally: Tally, versions: int) -> str:
    if way == "emulated S3 gateway":
        return tally.purposes("s3", versions)
    named = "; ".join(purposes for kind in ("api", "resolve") if (purposes := tally.purposes(kind, versions)))
    return f"{named}; {tally.count('cas') / versions:.1f} of the CAS, {tally.count('bytes') / versions:.1f} for bytes"


def _at_a_pace(way: Way, found: Paced, asked: Asked) -> Figure:
    tally, versions, each = found.requests, found.versions, found.versions * found.followers
    kind, api = "s3", ""
    if way == "emulated Hub API":
        kind = "resolve"
        api = f"API calls: {tally.purposes('api', versions, 'publisher')} a version of the publisher's,"
        api += f" {tally.purposes('api', 1, 'follower') or 'none'} of the followers' in all; "
    pins = tally.count(kind, "follower", "PUT leases")
    requests = (tally.count(kind, "follower") - pins) / each
    needed = asked.followed.count(kind) / asked.versions
    return {
        "figure": f"{way}, {found.followers} follower{'s' * (found.followers > 1)}",
        "value": f"{found.applied_seconds * 1e3:.0f} ms from publish() to applied",
        "note": f"{found.publish_seconds * 1e3:.0f} ms of publish(), every {_QUICK:g} s, {CHANGED:.0%} of"
        f" {2 * Options().elements >> 20} MiB changed; {api}{requests:.1f} requests ({kind}) a version and follower,"
        f" {requests - needed:.1f} of them because it looks too early; {found.updates} updates of {each}",
        "data": {"api": tally.count("api"), "requests": requests, "needed": needed},
    }


def _idle(found: Paced) -> Iterator[Figure]:
    minutes = found.idle_seconds / 60 * found.followers
    pins = found.idle.count("api", "follower", PINS)
    others = found.idle.count("api") - pins
    yield {
        "figure": "emulated Hub API: an idle follower",
        "value": f"{pins / minutes:.1f} API calls a minute",
        "note": f"to renew its pin, and {others / minutes:.1f} else; resolved a minute:"
        f" {found.idle.purposes('resolve', minutes, 'follower')}, at the usual interval; {found.followers} followers,"
        f" for {found.idle_seconds:.0f} s",
        "data": {"pins": pins / minutes, "others": others / minutes},
    }


def _collecting() -> Iterator[Figure]:
    found = collect("emulated Hub API")
    requests = found.requests
    yield {
        "figure": f"emulated Hub API: collecting {COLLECTED} versions",
        "value": f"{requests.count('api')} API calls",
        "note": f"{requests.purposes('api', 1)}; {requests.count('resolve')} requests that resolve a path,"
        f" {requests.count('cas')} of the CAS, {requests.count('bytes')} for bytes; {found.objects} objects before",
    }


def _limits(asked: Asked, slow: Paced, idle: Paced) -> Iterator[Figure]:
    """What five minutes come to, next to what a free account may ask for."""
    trainer = asked.published.count("api") / asked.versions * _WINDOW / _PACE
    renewals = idle.idle.count("api", "follower") / idle.idle_seconds * _WINDOW
    followed = slow.requests.count("resolve", "follower") / slow.versions * _WINDOW / _PACE
    published = asked.published.count("resolve") / asked.versions * _WINDOW / _PACE
    resting = idle.idle.count("resolve", "follower") / idle.idle_seconds * _WINDOW
    yield _limit(f"a version every {_PACE:g} s", trainer, API_LIMIT, "of the trainer's account")
    note = f"one account for all; {renewals:.0f} of them renew pins"
    yield _limit(f"the same and {idle.followers} followers", trainer + renewals, API_LIMIT, note)
    note = f"and {published:.0f} of the trainer's"
    yield _limit(f"a follower of a version every {_PACE:g} s", followed, RESOLVE_LIMIT, note)
    note = "the trainer and all of them by one account"
    yield _limit(f"{idle.followers} such followers", idle.followers * followed + published, RESOLVE_LIMIT, note)
    yield _limit(f"{idle.followers} idle followers", resting, RESOLVE_LIMIT, "one account for all")


def _limit(who: str, calls: float, limit: int, note: str) -> Figure:
    what = "API calls" if limit == API_LIMIT else "resolved"
    return {
        "figure": f"emulated Hub API, 5 minutes: {who}",
        "value": f"{calls:,.0f} {what}",
        "note": f"{calls / limit:.0%} of the {limit:,} that the Hub documents for a free account; {note}",
        "data": {"calls": calls, "limit": limit},
    }


def _latency(way: Way) -> Figure:
    found = round_trips(way)
    return {
        "figure": f"{way}: round trips",
        "value": f"{found.publish:.0f} to publish, {found.follow:.0f} to follow",
        "note": f"one after the other, from how much longer it takes when every request waits {DELAY * 1e3:.0f} ms;"
        f" from publish() to applied that is {found.applied_seconds:.2f} s, {found.applied_seconds / DELAY:.0f} waits,"
        " at a follower that looks by itself",
        "data": {"publish": found.publish, "follow": found.follow, "applied_seconds": found.applied_seconds},
    }


def _memory() -> Iterator[Figure]:
    for party, peak in peaks().items():
        more = peak.hub - peak.folder
        yield {
            "figure": f"emulated Hub API: the {party}'s peak",
            "value": f"{more / MODEL_BYTES:.2f} x the model more",
            "note": f"than the same in a local folder: {peak.hub / MB:,.0f} MB and not {peak.folder / MB:,.0f}; a model"
            f" of {MODEL_BYTES >> 20} MiB; another copy of it would be 1",
            "data": {"hub": peak.hub, "folder": peak.folder, "model": MODEL_BYTES},
        }
