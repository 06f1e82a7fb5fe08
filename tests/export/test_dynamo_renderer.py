"""Policy documents as the environment of Dynamo's block manager."""

from __future__ import annotations

import shlex
import subprocess

import pytest
from export_documents import DISK, document, export, notes, settings

from autotune.core.errors import ConfigError
from autotune.core.units import GIB
from autotune.export.dynamo import check
from autotune.export.renderer import Settings


def test_sizes_are_gb_over_all_ranks() -> None:
    """Bytes become GB of 10^9 bytes; the number of ranks does not matter."""
    expected = {"DYN_KVBM_CPU_CACHE_GB": 160 * GIB / 10**9}
    assert settings("dynamo", document(), ranks=8)["environment"] == expected


def test_shell_sets_what_is_exported() -> None:
    """A shell that runs the text has every variable, a folder with a blank in its name included."""
    rendered = export("dynamo", document(disk_gib=1000), disk_dir=DISK)
    script = f"{rendered.text}\nenv"
    done = subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, check=True, env={})
    seen = dict(line.split("=", 1) for line in done.stdout.splitlines() if line.startswith("DYN_"))
    environment = rendered.settings["environment"]
    assert isinstance(environment, dict)
    assert seen == {name: str(value) for name, value in environment.items()}
    assert shlex.split(rendered.text.splitlines()[-1])[1] == f"DYN_KVBM_DISK_CACHE_DIR={DISK}"


def test_router_weighs_hits_by_what_loading_leaves() -> None:
    """128 KiB at 50 GB/s take 2.6 µs of the 40.15 µs that the token's prefill takes: a hit is worth 0.9347 of one."""
    router = settings("dynamo", document())["router"]
    assert isinstance(router, dict)
    assert router == {"host_cache_hit_weight": 0.9347, "disk_cache_hit_weight": 0.3471}
    assert "host_cache_hit_weight 0.9347" in notes("dynamo", document())


def test_disk_that_only_mirrors_the_host_is_refused() -> None:
    """Every tier must be larger than the one above it, since blocks are written through."""
    with pytest.raises(ConfigError, match="disk tier must be larger than the host tier"):
        export("dynamo", document(disk_gib=100), disk_dir=DISK)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "needs a tier below the device"),
        ({"DYN_KVBM_CPU_CACHE_GB": -1.0}, "at least 0"),
        ({"DYN_KVBM_CPU_CACHE_GIB": 4}, r"did you mean DYN_KVBM_CPU_CACHE_GB\?"),
        ({"DYN_KVBM_CPU_CACHE_GB": "much"}, "of type float"),
        ({"DYN_KVBM_CPU_CACHE_GB": 4.0, "DYN_KVBM_METRICS_PORT": 70_000}, "at most 65535"),
    ],
)
def test_what_kvbm_ignores_is_refused(given: Settings, said: str) -> None:
    """Names that it does not know and values that it takes for 0 are errors."""
    with pytest.raises(ConfigError, match=said):
        check(dict(given))


def test_port_of_another_part_is_refused() -> None:
    """The environment of a public report (ai-dynamo/dynamo, 4549): the port that is set is not the one of KVBM."""
    text = "DYN_KVBM_CPU_CACHE_GB=150\nDYN_KVBM_METRICS=true\nDYN_METRICS_PORT=6880"
    given = dict(line.split("=") for line in text.splitlines())
    typed: Settings = {
        "DYN_KVBM_CPU_CACHE_GB": float(given["DYN_KVBM_CPU_CACHE_GB"]),
        "DYN_KVBM_METRICS": given["DYN_KVBM_METRICS"] == "true",
        "DYN_METRICS_PORT": int(given["DYN_METRICS_PORT"]),
    }
    with pytest.raises(ConfigError, match=r"DYN_METRICS_PORT is no setting .*did you mean DYN_KVBM_METRICS_PORT\?"):
        check(typed)
