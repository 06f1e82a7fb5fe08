"""What is rendered for vLLM, in the hands of vLLM itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from autotune.core.errors import ConfigError
from autotune.core.policy import RankDocument, StoredTier
from autotune.core.types import Admission
from autotune.core.units import GIB
from autotune.export import Flavor, export_policy
from autotune.export.field_table import table
from autotune.export.renderer import Settings
from autotune.export.vllm import check
from autotune.export.vllm_size import check as check_short
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
    """The configuration of an engine that was started with this argument."""
    return started(model, "--kv-transfer-config", text)


def started(model: Path, *words: str) -> Any:
    """The configuration of an engine that was started with these words."""
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.entrypoints.launchers.cli_args import make_arg_parser
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    parser = make_arg_parser(FlexibleArgumentParser())
    given = parser.parse_args(["--model", str(model), "--max-model-len", "512", *words])
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


def test_short_form_gives_the_policys_bytes(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """VLLM turns the two flags into its connector with exactly the policy's bytes."""
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
    words = export_policy(document(), Path("/a/policy.yaml"), "vllm-size").text.split()
    given = started(model, *words).kv_transfer_config
    assert given.kv_connector == "OffloadingConnector"
    assert given.kv_connector_extra_config == {"cpu_bytes_to_use": example_document().budgets.host_bytes}


def test_size_overwrites_a_connector(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given together, the size replaces our connector in silence, and a negative one is taken: refused here."""
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
    text = export_policy(document(), Path("/a/policy.yaml"), "vllm").text
    given = started(model, "--kv-transfer-config", text, "--kv-offloading-size", "-4").kv_transfer_config
    assert given.kv_connector == "OffloadingConnector"
    assert given.kv_connector_extra_config["cpu_bytes_to_use"] == -4 * GIB
    refused: list[Settings] = [{"kv-offloading-size": -4.0}, {"kv-offloading-size": 4.0, "kv-transfer-config": text}]
    for settings in refused:
        with pytest.raises(ConfigError):
            check_short(settings)


@pytest.mark.parametrize("flavor", Flavor)
def test_disk_tier_names_a_spec_with_tiers(flavor: Flavor, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a folder vLLM is told of a spec that it loads and that has tiers below the host."""
    from vllm.v1.kv_offload.factory import OffloadingSpecFactory
    from vllm.v1.kv_offload.tiering.spec import TieringOffloadingSpec

    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
    example = document(admission=Admission.ALL)
    budgets = example.budgets.model_copy(update={"disk_bytes": 1000 * GIB})
    tiers = example.tiers.model_copy(update={"disk": StoredTier()})
    policy = example.model_copy(update={"budgets": budgets, "tiers": tiers})
    text = export_policy(policy, Path("/a/policy.yaml"), "vllm", flavor=flavor, disk_dir=Path("/mnt/kv")).text
    extra = engine_config(model, text).kv_transfer_config.kv_connector_extra_config
    assert extra["secondary_tiers"] == [{"type": "fs", "root_dir": "/mnt/kv"}]
    assert issubclass(OffloadingSpecFactory.get_spec_cls(extra), TieringOffloadingSpec)


def test_connector_of_another_name_is_found_out_late(model: Path) -> None:
    """VLLM's parser takes the name of a connector that does not exist; it is refused here."""
    from vllm.entrypoints.launchers.cli_args import make_arg_parser
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    text = '{"kv_connector": "OffloadingConector", "kv_role": "kv_both"}'
    words = ["--model", str(model), "--kv-transfer-config", text]
    assert make_arg_parser(FlexibleArgumentParser()).parse_args(words).kv_transfer_config
    with pytest.raises(ConfigError, match="must be the one for host memory"):
        check(json.loads(text))


def test_table_has_the_keys_that_vllm_reads() -> None:
    """Every key of the table stands in the sources of vLLM's host offloading."""
    import vllm

    root = Path(vllm.__file__).parent
    folders = (root / "v1/kv_offload", root / "distributed/kv_transfer/kv_connector/v1")
    text = "\n".join(path.read_text(encoding="utf-8") for folder in folders for path in sorted(folder.rglob("*.py")))
    assert [key for key in table("vllm").fields if f'"{key}"' not in text] == []


@pytest.mark.parametrize("engine", ["lmcache", "lmcache-mp"])
def test_connector_of_lmcache_is_one_of_vllms(engine: str) -> None:
    """The notes on LMCache name a connector that vLLM has."""
    from vllm.config import KVTransferConfig
    from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory

    said = "\n".join(export_policy(document(), Path("/a/policy.yaml"), engine).notes)
    text = said[said.index("--kv-transfer-config '") :].split("'")[1]
    given = KVTransferConfig(**json.loads(text))
    assert given.kv_connector in KVConnectorFactory._registry
    assert given.is_kv_producer
    assert given.is_kv_consumer
