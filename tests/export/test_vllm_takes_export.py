"""What is rendered for vLLM, in the hands of vLLM itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from autotune.core.policy import RankDocument
from autotune.core.types import Admission
from autotune.export import Flavor, export_policy
from autotune.testing.documents import example_document

pytestmark = pytest.mark.engine("vllm")

CONNECTORS = {Flavor.PLUGIN: "AutotuneConnector", Flavor.STOCK: "OffloadingConnector"}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model."""
    from tiny_model import build

    return build(tmp_path_factory.mktemp("model"))


def document(**host: Any) -> RankDocument:
    """The example document with other values for the host."""
    example = example_document()
    assert example.tiers.host
    changed = example.tiers.host.model_copy(update=host)
    return example.model_copy(update={"tiers": example.tiers.model_copy(update={"host": changed})})


def engine_config(model: Path, text: str) -> Any:
    """The configuration of an engine that was started with this text."""
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.entrypoints.launchers.cli_args import make_arg_parser
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    parser = make_arg_parser(FlexibleArgumentParser())
    given = parser.parse_args(["--model", str(model), "--max-model-len", "512", "--kv-transfer-config", text])
    return AsyncEngineArgs.from_cli_args(given).create_engine_config()


@pytest.mark.parametrize("flavor", Flavor)
@pytest.mark.parametrize("block_tokens", [None, 32])
def test_engine_starts_with_what_is_exported(
    flavor: Flavor, block_tokens: int | None, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """VLLM's own parser takes the text, its configuration holds every value, and its factory finds the connector."""
    from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory

    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
    policy = document(chunk_tokens=64, admission=Admission.TWO_HIT)
    text = export_policy(policy, Path("/a/policy.yaml"), "vllm", flavor=flavor, block_tokens=block_tokens).text
    given = engine_config(model, text).kv_transfer_config
    for name, value in json.loads(text).items():
        assert getattr(given, name) == value
    assert KVConnectorFactory.get_connector_class(given).__name__ == CONNECTORS[flavor]


def test_plugin_reads_what_is_exported() -> None:
    """The plug-in's own settings come out of the exported object, and it knows every key beside them."""
    from autotune_policies.engines.live.settings import EngineSettings

    text = export_policy(document(chunk_tokens=64), Path("/a/policy.yaml"), "vllm").text
    extra = json.loads(text)["kv_connector_extra_config"]
    assert EngineSettings.from_extra_config(extra, {}).policy_file == Path("/a/policy.yaml")


@pytest.mark.parametrize("flavor", Flavor)
def test_named_classes_exist(flavor: Flavor) -> None:
    """The spec that is named is one that vLLM's factory loads."""
    from vllm.v1.kv_offload.base import OffloadingSpec
    from vllm.v1.kv_offload.factory import OffloadingSpecFactory

    extra = json.loads(export_policy(document(), Path("/a/policy.yaml"), "vllm", flavor=flavor).text)
    found = OffloadingSpecFactory.get_spec_cls(extra["kv_connector_extra_config"])
    assert issubclass(found, OffloadingSpec)
