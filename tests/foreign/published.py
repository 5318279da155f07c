"""Published records of every shape, made up: all numbers follow from a few, as a publisher's tool computes them.

Nothing is copied from a real record. Times are sums of binary floating point, as such tools print them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

Record = dict[str, Any]

BITS = {"f32": 32.0, "f16": 16.0, "q8_0": 8.5, "q4_0": 4.5}
TOKENS, LAYERS, WIDTH, STEPS = 12_000, 24, 512, 64
FIRST_FILE, SECOND_FILE = "1a" * 32, "2b" * 32
MODEL = "Some/Model-1B-GGUF:Q8_0"
EXCLUDED = (
    "F32/Q8_0 is not runtime-valid for this model because quantized V requires Flash Attention and there is no kernel."
)


def native_bytes(k: str, v: str) -> int:
    return int(TOKENS * LAYERS * WIDTH * (BITS[k] + BITS[v]) / 8)


def lost(other: float, native: float) -> str:
    return f"restore-to-first-token did not beat native ({other:.3f} ms >= {native:.3f} ms)"


def one_pair(
    *,
    date: str = "2026-03-01",
    digest: str = FIRST_FILE,
    matching: int = 10,
    scalar: bool = True,
    decision: str = "stop",
    k: str = "f16",
    v: str = "f16",
) -> Record:
    """A summary of one pair; the oldest has a decoder on the host, and few tokens that agree."""
    size, native = 150_000_123, native_bytes(k, v)
    read, decode, load, step = (21.5, 20_000.25, 50.125, 9.2) if scalar else (21.5, None, 500.125, 9.2)
    native_read, native_load, native_step = 230.1, 51.3, 18.4
    ttft, native_ttft = read + (decode or 0.0) + load + step, native_read + native_load + native_step
    reasons = [lost(ttft, native_ttft)] if ttft >= native_ttft else []
    reasons += [f"token agreement {matching / STEPS:.4f} is below 0.9500"] if matching / STEPS < 0.95 else []
    rows = 4096 if scalar else 256
    return {
        "schema_version": 1,
        "decision": decision,
        "date": date,
        "commit": "ab" * 20,
        "hardware": {"model": "Some Studio", "chip": "Some Chip", "memory_gib": 128, "backend": "Metal"},
        "model": {"id": MODEL, "sha256": digest, "layer_end": LAYERS},
        "workload": {
            "prefix_tokens": TOKENS,
            "continuation_steps": STEPS,
            "ctx_size": TOKENS + 200,
            "cache_types": {"k": k, "v": v},
            **({"tile_rows": rows} if scalar else {"chunk_rows": rows, "continuation_sessions": "isolated"}),
        },
        "thresholds": {
            "minimum_token_agreement": 0.95,
            "maximum_p99_decode_regression": 0.05,
            "restore_to_first_token_must_beat_native": True,
        },
        **({} if scalar else {"reference": {"implementation": "Some Codec", "revision": "cd" * 20, "license": "MIT"}}),
        "metrics": {
            "native_storage_bytes": native,
            "cachegen_storage_bytes": size,
            "compression_ratio": size / native,
            "tile_count": LAYERS * 2 * -(-TOKENS // rows),
            "encode_ms": 15_000.5,
            **({"decode_ms": decode} if scalar else {"scalar_oracle_decode_ms": 30_000.5}),
            "native_write_ms": 1300.25,
            "cachegen_write_ms": 110.5,
            "native_persist_ms": 1300.25,
            "cachegen_persist_ms": 15_000.5 + 110.5,
            "native_read_ms": native_read,
            "cachegen_read_ms": read,
            "native_import_ms": native_load,
            "cachegen_import_ms": load,
            "native_ttft_ms": native_ttft,
            "cachegen_ttft_ms": ttft,
            "native_decode_tokens_per_second": 120.5,
            "cachegen_decode_tokens_per_second": 121.5,
            "native_p99_decode_ms": native_step,
            "cachegen_p99_decode_ms": step,
            "p99_decode_regression": (step - native_step) / native_step,
            "matching_tokens": matching,
            "token_agreement": matching / STEPS,
            "first_token_mismatch_step": None if matching == STEPS else 1,
            "mean_entropy_abs_drift": 1.5,
            "max_entropy_abs_drift": 2.5,
            "mean_top_logprob_abs_drift": 0.5,
            "max_top_logprob_abs_drift": 0.75,
            "estimated_peak_codec_working_bytes": 2_000_000_000,
        },
        "failure_reasons": reasons,
        "notes": ["Reads were of the page cache."],
    }


def a_case(k: str, v: str, size: int, native: float, other: float, matching: int = STEPS) -> Record:
    """One case of a typed summary."""
    stored = native_bytes(k, v)
    reasons = ["encoded payload is not smaller than native"] if size >= stored else []
    reasons += [lost(other, native)] if other >= native else []
    return {
        "cache_type_k": k,
        "cache_type_v": v,
        "passed": not reasons,
        "native_storage_bytes": stored,
        "cachegen_storage_bytes": size,
        "compression_ratio": size / stored,
        "native_ttft_ms": native,
        "cachegen_ttft_ms": other,
        "p99_decode_regression": -0.25 if other >= native else -0.05,
        "matching_tokens": matching,
        "token_agreement": matching / STEPS,
        "first_token_mismatch_step": None if matching == STEPS else 15,
        "failure_reasons": reasons,
    }


def typed(*, date: str = "2026-03-02", digest: str = SECOND_FILE) -> Record:
    """A summary of eight pairs: three passed, five stopped, one of these passed once and failed once."""
    mixed = a_case("q8_0", "f32", 200_000_003, 800.5, 796.75)
    for name in ("native_ttft_ms", "cachegen_ttft_ms", "p99_decode_regression", "failure_reasons"):
        del mixed[name]
    runs = [(800.5, 796.75), (727.25, 792.125)]
    mixed |= {
        "passed": False,
        "stable_result": "one-pass-one-fail",
        "runs": [
            {"native_ttft_ms": native, "cachegen_ttft_ms": other, "passed": other < native} for native, other in runs
        ],
    }
    record = one_pair(date=date, digest=digest, scalar=False)
    for name in ("commit", "metrics", "failure_reasons"):
        del record[name]
    del record["workload"]["cache_types"]
    return {
        **record,
        "decision": "wide-types-local-pass-lower-width-types-stop",
        "commits": {"quantized": "ab" * 20, "wide": "bc" * 20},
        "thresholds": {**record["thresholds"], "encoded_payload_must_be_smaller_than_native": True},
        "cases": [
            a_case("f32", "f32", 150_000_003, 1200.125, 766.5),
            mixed,
            a_case("f32", "f16", 150_000_003, 880.5, 686.25),
            a_case("f16", "f32", 150_000_003, 840.5, 671.75),
            a_case("q8_0", "q8_0", 160_000_001, 333.5, 650.625),
            a_case("q4_0", "q4_0", native_bytes("q4_0", "q4_0") + 4001, 189.75, 699.5, 61),
            a_case("q8_0", "f16", 165_000_001, 558.25, 792.125),
            a_case("q4_0", "f16", 164_000_001, 484.5, 807.25, 61),
        ],
        "notes": ["The scalar decoder is an oracle.", EXCLUDED, "The matrix is representative rather than exhaustive."],
    }


def gate_report() -> Record:
    """What a gate command prints: no model, no hardware, no date."""
    metrics = one_pair(scalar=False, matching=STEPS)["metrics"]
    return {
        "passed": False,
        "failure_reasons": [lost(metrics["cachegen_ttft_ms"], metrics["native_ttft_ms"])],
        "restore_path": "native-direct",
        "cache_type_k": "f16",
        "cache_type_v": "f16",
        "continuation_steps": STEPS,
        **metrics,
        "min_token_agreement": 0.95,
        "max_p99_decode_regression": 0.05,
        "max_peak_codec_working_bytes": None,
    }


def handoff(**changes: Any) -> Record:
    """A state handed over to another session; the bytes that come back are reported, and part of no verdict."""
    return {
        "mode": "state-handoff",
        "status": "ok",
        "model_identity": {"model_id": MODEL, "sha256": FIRST_FILE},
        "matches": True,
        "predicted_token_matches": True,
        "roundtrip_state_matches": True,
        "suffix_prefill_matches": True,
        "cache_hit_matches": True,
        "stage_index": 0,
        "layer_start": 0,
        "layer_end": LAYERS,
        "include_embeddings": True,
        "include_output": True,
        "handoff_transport": "local-runtime",
        "state_payload_kind": "kv-recurrent",
        "state_bytes": 4096,
        "prompt_token_count": 64,
        "cache_hit_repeats": 3,
        "recompute_total_ms": 300.0,
        "cache_hit_total_ms": 100.0,
        "cache_hit_speedup": 3.0,
        "stage_models": [],
        **changes,
    }


def growth(**changes: Any) -> Record:
    """A prompt that grows four times."""
    turns = [
        {
            "turn": turn,
            "token_count": 2048 + 512 * turn,
            "payload_bytes": 100_000 * (turn + 4),
            "physical_bytes": 105_000 + turn,
            "ideal_bytes": 100_000,
            "amplification": (105_000 + turn) / 100_000,
            "tier_physical_bytes": 110_000,
            "tier_amplification": 1.1,
            "geometry_accepted": True,
        }
        for turn in range(1, 5)
    ]
    return {
        "model": MODEL,
        "segment_bytes": 65536,
        "base_tokens": 2048,
        "turn_tokens": 512,
        "turns": turns,
        "max_amplification": turns[-1]["amplification"],
        "max_tier_amplification": 1.1,
        "append_only": True,
        "ctx_size": 8192,
        **changes,
    }


def a_step(**changes: Any) -> Record:
    """One token over two stages, beside the model in one piece."""
    return {
        "mode": "single-step",
        "status": "pass",
        "model_identity": {"model_id": MODEL, "sha256": FIRST_FILE},
        "matches": True,
        "baseline": {"token_id": 7, "predicted_token": 41},
        "split": {
            "token_id": 7,
            "predicted_token": 41,
            "activation_width": WIDTH,
            "wire_dtype": "f16",
            "boundary": {
                "producer_stage_index": 0,
                "layer_start": 0,
                "layer_end": 12,
                "token_count": 1,
                "payload_bytes": 4 * WIDTH,
                "wire_payload_bytes": 2 * WIDTH,
            },
        },
        "stage_models": [{"stage_index": 0, "layer_start": 0, "layer_end": 12, "load_mode": "runtime-slice"}],
        **changes,
    }


def a_chain(**changes: Any) -> Record:
    """One token over three stages."""
    ends = [0, 8, 16, LAYERS]
    return {
        "mode": "chain",
        "status": "pass",
        "model_identity": {"model_id": MODEL},
        "matches": True,
        "baseline": {"token_id": 7, "predicted_token": 41},
        "token_id": 7,
        "predicted_token": 41,
        "activation_width": WIDTH,
        "wire_dtype": "f32",
        "stages": [
            {
                "stage_index": index,
                "layer_start": ends[index],
                "layer_end": ends[index + 1],
                "payload_bytes": None if index == 2 else 4 * WIDTH,
                "forwarded_over_binary": index < 2,
                "returned_predicted_token": index == 2,
            }
            for index in range(3)
        ],
        "stage_models": [],
        **changes,
    }


def a_scan(*, counted: str = "split_count", bad: int = 0, **changes: Any) -> Record:
    """Eight splits, some of which predict another token."""
    results = [a_step() for _ in range(8)]
    for one in results[:bad]:
        one["matches"] = False
        one["split"] = {**one["split"], "predicted_token": 42}
    return {
        "mode": "split-scan" if counted == "split_count" else "dtype-matrix",
        "status": "pass" if not bad else "fail",
        "model_identity": {"model_id": MODEL},
        "baseline": {"token_id": 7, "predicted_token": 41},
        counted: len(results),
        "mismatch_count": bad,
        "results": results,
        **changes,
    }


def a_prefix_hit(*, warm: Record | None = None, control: Record | None = None, **changes: Any) -> Record:
    """A prefix that two stages keep, beside a start without it."""
    arm = {"http_status": 200, "content": "on the other side", "partial_prefix_hits": 0, "fatal_error_events": 0}
    return {
        "mode": "split-prefix-hit",
        "status": "pass",
        "model_identity": {"model_id": MODEL},
        "split_layer": 12,
        "layer_end": LAYERS,
        "matches": True,
        "partial_hit_observed": True,
        "warm": {**arm, "partial_prefix_hits": 1, "warmup_http_status": 200, **(warm or {})},
        "control": {**arm, **(control or {})},
        **changes,
    }


def a_draft_ab(*, batched: Record | None = None, **changes: Any) -> Record:
    """A draft head behind a server: three ways of answering."""
    arm = {"http_status": 200, "content": "the maps ended here", "completion_tokens": 12}
    return {
        "mode": "native-mtp-openai-ab",
        "status": "pass",
        "model_id": MODEL,
        "max_tokens": 12,
        "exact_content_match": True,
        "batched_events_required": True,
        "batched_events_present": True,
        "matches": True,
        "baseline": {"case": "baseline", **arm},
        "n1": {"case": "n1", **arm},
        "batched": {"case": "batched", **arm, **(batched or {})},
        **changes,
    }


def a_remote(**changes: Any) -> Record:
    """A state handed to another machine; its time is a sum over both."""
    prefill, export, transfer, attach, first, local = 812.5, 20.25, 91.125, 11.5, 14.0, 1650.25
    apart = prefill + export + transfer + attach + first
    return {
        "mode": "remote-handoff",
        "status": "pass",
        "role": "send",
        "model_identity": {"model_id": MODEL},
        "matches": True,
        "tokens_match": True,
        "baseline_matches": True,
        "state_payload_kind": "kv-recurrent",
        "prompt_token_count": 4096,
        "decode_token_count": 4,
        "source_tokens": [5, 6, 7, 8],
        "restored_tokens": [5, 6, 7, 8],
        "state_bytes": 12_000_000,
        "state_bytes_per_prompt_token": 12_000_000 / 4096,
        "kv_bytes": 11_000_000,
        "recurrent_bytes": 1_000_000,
        "payload_digest": FIRST_FILE,
        "source_prefill_ms": prefill,
        "state_export_ms": export,
        "transfer_ms": transfer,
        "receiver": {"kv_attach_ms": attach, "first_decode_ms": first},
        "ttft_disaggregated_ms": apart,
        "ttft_local_ms": local,
        "ttft_speedup": local / apart,
        **changes,
    }


def a_policy(**changes: Any) -> Record:
    """What families have to pass; it holds no result."""
    lanes = ["single-step", "chain", "state-handoff"]
    model = {
        "family": "dense-one",
        "class": "causal",
        "architecture": "one",
        "profile": "full",
        "artifact": {
            "repo": "Some/Model",
            "revision": "ab" * 20,
            "files": ["model.gguf"],
            "file_integrity": {"model.gguf": {"size_bytes": 1000, "blob_id": FIRST_FILE}},
        },
        "notes": "",
    }
    return {
        "schema_version": 1,
        "policy": {
            "profiles": {
                "full": {"status": "certified", "oracle": "local-monolithic", "required_lanes": lanes},
                "graph-only": {"status": "provisional", "oracle": "none", "required_lanes": ["graph-parse"]},
            }
        },
        "models": [model, {**model, "family": "dense-two", "profile": "graph-only"}],
        **changes,
    }


def a_roster(**changes: Any) -> Record:
    """Which architectures may be split, bound to a build."""
    return {
        "schema_version": 2,
        "native_recipe": {"llama_upstream_sha": "ab" * 20, "skippy_abi": "1.2.3", "patch_queue_sha256": FIRST_FILE},
        "architectures": ["alpha", "zeta"],
        **changes,
    }


def a_capability(word: str = "untested") -> Record:
    """What is drafted of a family after its run."""
    return {"family_id": "dense-one", "layer_count": LAYERS, "activation_width": WIDTH, "exact_state_mobility": word}


def written(record: Mapping[str, Any]) -> bytes:
    """Bytes as a publisher's tool writes them."""
    return (json.dumps(record, indent=2) + "\n").encode()
