"""Settings from an operator and from content."""

from typing import Any

from skills_mcp.config import Layer, Settings
from tests.support import PROJECT

EXAMPLE = PROJECT / "config.example.yaml"
DEFAULTS_OF_001: dict[str, dict[str, object]] = {
    "matching": {"min_score": 0.2, "max_results": 3, "ambiguity_threshold": 0.1},
    "refresh": {"enabled": True, "interval_minutes": 15},
    "scripts": {
        "enabled": True,
        "timeout_seconds": 60,
        "max_output_bytes": 1048576,
        "allowed_extensions": [".sh", ".ts", ".js", ".py"],
        "runners": {".sh": "bash", ".ts": "npx tsx", ".js": "node", ".py": "python3"},
    },
    "assets": {"max_size_bytes": 1048576, "inline_text_max_bytes": 10240},
    "analytics": {"enabled": False, "endpoint": ""},
}


def operator(**sections: Any) -> Settings:
    return Settings((Layer("operator.yaml", sections),))


def content(**sections: Any) -> Layer:
    return Layer("config.yaml", sections)
