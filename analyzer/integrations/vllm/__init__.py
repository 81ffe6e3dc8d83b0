"""The effect of a serving engine's compile pipeline on findings. Its sources are read, never imported."""

from tcready.integrations.vllm.outcome import NOT_INSTALLED, by_the_installed, judge_report
from tcready.integrations.vllm.pipeline_source import Pipeline, engine_in, read_engine

__all__ = ["NOT_INSTALLED", "Pipeline", "by_the_installed", "engine_in", "judge_report", "read_engine"]
