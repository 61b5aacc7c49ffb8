from __future__ import annotations

import pytest

from deltawire.errors import InvalidArgumentError
from deltawire.store.hub_location import hub_location


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_ENDPOINT", raising=False)


def test_a_plain_url_is_on_the_public_hub() -> None:
    location = hub_location("hf://buckets/me/models/runs/7/")
    assert (location.bucket, location.prefix) == ("me/models", "runs/7/")
    assert location.endpoint == "https://huggingface.co"
    assert location.api == "https://huggingface.co/api/buckets/me/models"
    assert location.page == "https://huggingface.co/buckets/me/models/tree/runs/7"


def test_a_bucket_needs_no_prefix() -> None:
    assert hub_location("hf://buckets/me/models").prefix == hub_location("hf://buckets/me/models/").prefix == ""
    assert hub_location("hf://buckets/me/models").page == "https://huggingface.co/buckets/me/models"


def test_upper_and_lower_case_are_kept() -> None:
    location = hub_location("HF://buckets/Me/Models/Run-A")
    assert (location.bucket, location.prefix) == ("Me/Models", "Run-A/")


def test_who_says_which_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://general:1/")
    assert hub_location("hf://buckets/me/models").endpoint == "http://general:1"
    assert hub_location("hf://buckets/me/models?endpoint=http://own:1").endpoint == "http://own:1"


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("hf://", "hf://buckets/NAMESPACE/NAME/PREFIX"),
        ("hf://me/models", "got hf://me/models"),
        ("hf://datasets/me/models", "got hf://datasets/me/models"),
        ("hf://Buckets/me/models", "hf://buckets/NAMESPACE/NAME/PREFIX"),
        ("hf://buckets", "names no bucket"),
        ("hf://buckets/me", "hf://buckets/me names no bucket"),
        ("hf://buckets/me/", "names no bucket"),
        ("hf://buckets/me/models#x", "hf://buckets/NAMESPACE/NAME/PREFIX"),
        ("hf://buckets/me/mo dels/x", "'mo dels' is no name"),
        ("hf://buckets/me/-models", "'-models' is no name"),
        ("hf://buckets/me/" + "m" * 97, "is no name"),
        ("hf://buckets/me/models//x", "key grammar"),
        ("hf://buckets/me/models/../x", "key grammar"),
        ("hf://buckets/me/models/a%20b", "key grammar"),
        ("hf://buckets/me/models/run 7", "key grammar"),
        ("hf://buckets/me/models@main/x", "revisions"),
        ("hf://buckets/me/models?revision=main", "'revision'"),
        ("hf://buckets/me/models?endpoint=http://a&endpoint=http://b", "once"),
        ("hf://buckets/me/models?endpoint=ftp://x", "endpoint is http"),
        ("hf://buckets/me/models?endpoint=http://", "endpoint is http"),
        ("hf://[buckets/me/models", "no URL"),
        ("hf://buckets/me/models?endpoint=http://[me", "no URL"),
    ],
)
def test_unusable_urls_are_refused(url: str, words: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        hub_location(url)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "hf://me:hush@buckets/me/models",
        "hf://buckets/me/models?token=hush",
        "hf://buckets/me?token=hush",
        "hf://me/models?token=hush",
        "hf://buckets/me/models?endpoint=http://me:hush@host",
    ],
)
def test_credentials_in_a_url_are_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        hub_location(url)
    assert "hush" not in str(caught.value)
