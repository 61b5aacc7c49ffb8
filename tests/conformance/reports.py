"""A fixed run with something of everything, to look at."""

from __future__ import annotations

from deltawire_conformance.adapter import Description
from deltawire_conformance.case import Role
from deltawire_conformance.execution import StepLog
from deltawire_conformance.results import CaseResult, Results, Status, profiles

ROLES: list[Role] = ["consumer", "producer"]
AREAS: dict[str, tuple[Role, int]] = {
    "anchors": ("consumer", 6),
    "chain": ("consumer", 9),
    "codecs": ("consumer", 12),
    "commit": ("producer", 8),
    "lease": ("producer", 7),
    "parts": ("consumer", 14),
    "records": ("consumer", 10),
    "retention": ("consumer", 5),
}
STORES = ["disk", "simulator"]


def case(
    name: str, store: str, status: Status, *, title: str = "", role: Role = "consumer", **more: object
) -> CaseResult:
    made = CaseResult(
        id=name,
        title=title or f"a case of {name.partition('/')[0]}, number {name.rpartition('-')[2]}",
        area=name.partition("/")[0],
        negative="invalid" in name,
        role=role,
        level="must",
        requirements=("CHN-2",),
        store=store,
        status=status,
        seconds=0.12,
    )
    for member, value in more.items():
        setattr(made, member, value)
    return made


def results(cases: list[CaseResult], *, name: str = "my-engine", roles: list[Role] | None = None) -> Results:
    used = roles or ROLES
    return Results(
        suite_version="0.1.0",
        spec_version="0.1",
        contract=1,
        started_at="2026-12-01T09:30:00Z",
        seconds=41.7,
        adapter=Description(
            contract=1,
            name=name,
            version="2.3.0",
            spec_versions=("0.1",),
            roles=tuple(used),
            stores=("disk", "s3"),
            features=("partial", "signatures", "lease"),
        ),
        command="./my-adapter --quiet",
        stores=list(STORES),
        roles=used,
        cases=cases,
        profiles=profiles(used, cases, strict=False),
    )


def passing() -> list[CaseResult]:
    return [
        case(f"{area}/case-{number}", store, "pass", role=role)
        for area, (role, count) in AREAS.items()
        for number in range(count)
        for store in STORES
    ]


def all_good() -> Results:
    return results(
        [*passing(), case("spans/two-spans", "disk", "not_claimed", reason="the feature spans is not claimed")]
    )


STORE = "/run/deltawire-conformance-x1/chain/stale-epoch-1f2e3d4c/store"


def failures() -> list[CaseResult]:
    laid = StepLog(step={"do": "put", "tree": "store"})
    first = StepLog(
        step={"do": "materialize", "version": 1, "state": "1"},
        arguments=("materialize", STORE, "/run/deltawire-conformance-x1/target", "1", "{}"),
        status=0,
        output=[{"version": 1, "state_digest": "2c4c374d8aa48864", "tensors": {}, "files": {}}],
        seconds=0.31,
    )
    taken = StepLog(
        step={"do": "materialize", "error": ["broken_chain"]},
        arguments=("materialize", STORE, "/run/deltawire-conformance-x1/target", "latest", "{}"),
        status=0,
        output=[
            {
                "version": 2,
                "state_digest": "91c2be3fa0d51e77",
                "tensors": {"norm.weight": {"dtype": "BF16", "shape": [3], "sha256": "9f0c" * 16}},
                "files": {"config.json": "ca3d" * 16},
            }
        ],
        stderr="INFO reading versions/00000000000000000002.json\nINFO applying 1 part, 3,418 bytes\n",
        seconds=0.28,
    )
    crash = StepLog(
        step={"do": "publish", "input": "input", "versions": [0, 1]},
        arguments=(
            "publish",
            "s3://bucket/commit/lost-answer-0a1b2c3d/store",
            "/cases/commit/valid/lost-answer/input",
            "{}",
        ),
        status=134,
        stderr="thread 'main' panicked at src/commit.rs:118:\ncalled `Result::unwrap()` on an `Err` value: Http(412)\n",
        seconds=1.02,
        trouble="it ended with status 134, which is neither done nor refused",
    )
    return [
        case(
            "chain/stale-epoch",
            "disk",
            "fail",
            title="a version whose epoch is below its parent's",
            negative=True,
            problems=["it was done, but must be refused with broken_chain"],
            steps=[laid, first, taken],
        ),
        case(
            "commit/lost-answer",
            "simulator",
            "error",
            title="the answer to the create of a version record is lost",
            role="producer",
            requirements=("CMT-5", "STO-19"),
            problems=["it ended with status 134, which is neither done nor refused"],
            steps=[crash],
        ),
        case(
            "parts/bomb",
            "disk",
            "expected_failure",
            title="a batch that decompresses to more than the limits allow",
            requirements=("LIM-2",),
            reason="our zstd binding cannot stop early; fixed in 2.4",
            problems=["it was refused with malformed_part, but must be refused with limit_exceeded"],
        ),
    ]


def with_failures() -> Results:
    return results([*passing(), *failures()])


EVIL = "</pre><script>alert(1)</script><img src=x onerror=alert(1)>\"'&\x00\x1b[31m\ud800\u202e" + "x" * 300


def hostile() -> Results:
    """Whatever an adapter can bring in says something nasty."""
    made = case(
        "records/hostile",
        "disk",
        "fail",
        problems=[EVIL],
        reason=EVIL,
        steps=[
            StepLog(
                step={"do": "materialize", "options": {EVIL: EVIL}},
                arguments=("materialize", EVIL),
                status=0,
                output=[{EVIL: EVIL, "number": float("nan"), "large": 10**400, "deep": [[EVIL]]}],
                stderr=EVIL,
                trouble=EVIL,
            )
        ],
    )
    found = results([made], name=EVIL)
    found.command = EVIL
    return found
