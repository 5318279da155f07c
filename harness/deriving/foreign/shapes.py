"""Published records to nouns, by shape. A shape is told by its members, since ``schema_version`` is 1 in all of them.

======================  ========================================================================================
``summary``             one pair of element types: ``metrics``, ``failure_reasons``
``typed_summary``       several pairs: ``cases``
``gate_report``         what a gate command wrote: ``passed``, ``failure_reasons`` and all numbers at the top
``handoff_report``      a state handed over: ``matches`` and what it is made of, perhaps a gate report inside
``growth_report``       a prompt that grows turn by turn: ``turns``, ``max_amplification``
other reports           one way of running beside another: see `harness.deriving.foreign.comparisons`
policies                what is to be certified: see `harness.deriving.foreign.promises`
======================  ========================================================================================
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Final

from harness.deriving.foreign.comparisons import chain_row, draft_row, prefix_hit_row, remote_row, scan_row, step_row
from harness.deriving.foreign.nouns import Case, Exclusion, Gates, Record, Row, Sample, Times, Workload
from harness.deriving.foreign.promises import capability_row, policy_row, roster_row
from harness.deriving.foreign.reading import Members
from harness.deriving.foreign.rows import growth_row, handoff_row
from harness.errors import InvalidDocumentError

_UNSTABLE: Final = "one-pass-one-fail"
_EXCLUDED: Final = r"([A-Z0-9_]{2,8})/([A-Z0-9_]{2,8}) is not runtime-valid.*? because (.{1,300}?)\.?\Z"
_TYPE: Final = r"[a-z][a-z0-9_]{0,31}\Z"
_DRIFTS: Final = ("entropy_abs_drift", "top_logprob_abs_drift")
_MEASURES: Final = (
    "native_decode_tokens_per_second",
    "cachegen_decode_tokens_per_second",
    "estimated_peak_codec_working_bytes",
    "scalar_oracle_decode_ms",
)
_TEXTS: Final = ("model", "chip", "backend", "runtime_backend", "codec_backend")


def read_record(value: Mapping[str, object], where: str) -> Record:
    """Return what a published record says.

    Raises:
        InvalidDocumentError: It is of no known shape, or a member is not what its shape has.
    """
    found = Members(value, where)
    for name, (members, why) in _REFUSED.items():
        if found.has(*members):
            raise InvalidDocumentError(f"this shape is not read: {name} ({why})", where=where)
    for name, (members, read) in _SHAPES.items():
        if found.has(*members):
            return read(found, name)
    known = "; ".join(f"{name} ({', '.join(members)})" for name, (members, _) in _SHAPES.items())
    raise InvalidDocumentError(
        f"is of no known shape; known are: {known}. Of a folder import each report; its manifest is not read",
        where=where,
    )


def _summary(found: Members, shape: str) -> Record:
    workload, gates = found.inner("workload"), _gates(found.inner("thresholds"))
    kinds = workload.inner("cache_types")
    reasons = found.texts("failure_reasons")
    case = _case(
        found.inner("metrics"), k=_kind(kinds, "k"), v=_kind(kinds, "v"), passed=not reasons, gates=gates, at=workload
    )
    case = _replaced(case, reasons=reasons)
    return _record(found, shape, gates, [case])


def _typed(found: Members, shape: str) -> Record:
    workload, gates = found.inner("workload"), _gates(found.inner("thresholds"))
    cases = []
    for one in found.list("cases"):
        case = _case(
            one,
            k=_kind(one, "cache_type_k"),
            v=_kind(one, "cache_type_v"),
            passed=one.flag("passed"),
            gates=gates,
            at=workload,
        )
        cases.append(
            _replaced(
                case,
                mixed=one.text("stable_result") == _UNSTABLE,
                samples=tuple(_sample(run) for run in one.list("runs")) or case.samples,
                reasons=one.texts("failure_reasons") if one.has("failure_reasons") else None,
            )
        )
    names = [case.name for case in cases]
    if not cases or len(set(names)) != len(names):
        raise InvalidDocumentError("found no case, or one pair twice", where=f"{found.at}.cases")
    return _record(found, shape, gates, cases, matrix=True)


def _gate_report(found: Members, shape: str) -> Record:
    gates = _gates_of_report(found)
    return _record(found, shape, gates, [_case_of_report(found, gates)])


def _case_of_report(found: Members, gates: Gates) -> Case:
    case = _case(
        found,
        k=_kind(found, "cache_type_k"),
        v=_kind(found, "cache_type_v"),
        passed=found.flag("passed"),
        gates=gates,
        at=Members({"continuation_steps": found.required("continuation_steps")}, found.at),
    )
    return _replaced(case, reasons=found.texts("failure_reasons"))


def _gates_of_report(found: Members) -> Gates:
    return Gates(
        agreement=found.number("min_token_agreement"),
        regression=found.number("max_p99_decode_regression"),
        smaller=True,
        faster=True,
        working_bytes=found.whole("max_peak_codec_working_bytes"),
    )


def _handoff(found: Members, shape: str) -> Record:
    inner = found.inner("cachegen_gate") if found.has("cachegen_gate") else None
    gates = _gates_of_report(inner) if inner is not None else Gates()
    cases = [_case_of_report(inner, gates)] if inner is not None else []
    return _record(found, shape, gates, cases, others=[handoff_row(found, inner)])


def _growth(found: Members, shape: str) -> Record:
    return _record(found, shape, Gates(), [], others=[growth_row(found)])


def _one_row(row: Callable[[Members], Row]) -> Callable[[Members, str], Record]:
    """A shape that is one row."""
    return lambda found, shape: _record(found, shape, Gates(), [], others=[row(found)])


def _scan(counted: str) -> Callable[[Members, str], Record]:
    def read(found: Members, shape: str) -> Record:
        return _record(found, shape, Gates(), [], others=[scan_row(found, shape, counted)])

    return read


_REFUSED: Final[Mapping[str, tuple[Sequence[str], str]]] = {
    "trace of one model's kernels": (
        ("trace_parity", "variants"),
        "it compares two kernels within a tolerance, and hands no state over",
    ),
}
"""What is known and not read, with the members that tell it and the reason."""
_SHAPES: Final[Mapping[str, tuple[Sequence[str], Callable[[Members, str], Record]]]] = {
    "typed_summary": (("cases", "thresholds", "workload"), _typed),
    "summary": (("metrics", "thresholds", "workload"), _summary),
    "handoff_report": (("matches", "predicted_token_matches", "state_payload_kind"), _handoff),
    "growth_report": (("turns", "max_amplification", "segment_bytes"), _growth),
    "gate_report": (("passed", "cache_type_k", "cache_type_v", "continuation_steps"), _gate_report),
    "remote_handoff": (("role", "tokens_match", "source_tokens", "restored_tokens"), _one_row(remote_row)),
    "split_scan": (("split_count", "mismatch_count", "results"), _scan("split_count")),
    "dtype_matrix": (("dtype_count", "mismatch_count", "results"), _scan("dtype_count")),
    "split_prefix_hit": (("partial_hit_observed", "warm", "control"), _one_row(prefix_hit_row)),
    "mtp_ab": (("exact_content_match", "baseline", "n1", "batched"), _one_row(draft_row)),
    "chain": (("matches", "baseline", "predicted_token", "stages"), _one_row(chain_row)),
    "single_step": (("matches", "baseline", "split"), _one_row(step_row)),
    "family_policy": (("policy", "models"), _one_row(policy_row)),
    "split_roster": (("native_recipe", "architectures"), _one_row(roster_row)),
    "capability_draft": (("exact_state_mobility", "family_id"), _one_row(capability_row)),
}
"""Name to the members that tell it, and what reads it; the first that fits."""


def _record(
    found: Members,
    shape: str,
    gates: Gates,
    cases: Sequence[Case],
    *,
    matrix: bool = False,
    others: Sequence[Row] = (),
) -> Record:
    hardware, workload = found.inner("hardware"), found.inner("workload")
    reference = found.inner("reference")
    facts = {name: hardware.text(name) for name in _TEXTS if hardware.has(name)}
    memory = hardware.whole("memory_gib")
    return Record(
        shape=shape,
        date=found.text("date"),
        decision=found.text("decision"),
        commits=_commits(found),
        hardware=facts if memory is None else {**facts, "memory_gib": str(memory)},
        models=tuple(_models(found)),
        reference={
            name: reference.text(name) for name in ("implementation", "revision", "license") if reference.has(name)
        },
        workload=Workload(
            tokens=workload.whole("prefix_tokens") or 0,
            layers=_layers(found),
            tile_rows=workload.whole("tile_rows") or workload.whole("chunk_rows") or 0,
            steps=workload.whole("continuation_steps") or 0,
        ),
        gates=gates,
        cases=tuple(cases),
        exclusions=tuple(_exclusions(found.texts("notes"))),
        matrix=matrix,
        others=tuple(others),
    )


def _drifts(found: Members) -> Mapping[str, tuple[Decimal, Decimal]]:
    """Mean and most of each drift; other measures that nobody asks about must at least be some."""
    for name in _MEASURES:
        found.measure(name)
    both = {name: (found.measure(f"mean_{name}"), found.measure(f"max_{name}")) for name in _DRIFTS}
    return {name: (mean, most) for name, (mean, most) in both.items() if mean is not None and most is not None}


def _case(found: Members, *, k: str, v: str, passed: bool | None, gates: Gates, at: Members) -> Case:
    apart = found.ns("decode_ms")
    native, other = _times(found, "native"), _times(found, "cachegen")
    both = native.ttft is not None and other.ttft is not None
    one = (Sample(native_ttft=native.ttft or 0, other_ttft=other.ttft or 0, passed=passed),) if both else ()
    return Case(
        k=k,
        v=v,
        passed=passed,
        native=native,
        other=other,
        native_bytes=found.whole("native_storage_bytes"),
        other_bytes=found.whole("cachegen_storage_bytes"),
        ratio=found.number("compression_ratio"),
        encode=found.ns("encode_ms"),
        decode=apart,
        tiles=found.whole("tile_count"),
        working_bytes=found.whole("estimated_peak_codec_working_bytes") if gates.working_bytes is not None else None,
        regression=found.number("p99_decode_regression"),
        steps=at.whole("continuation_steps") or 0,
        matching=found.whole("matching_tokens"),
        agreement=found.number("token_agreement"),
        mismatch=found.whole("first_token_mismatch_step"),
        drifts=_drifts(found),
        samples=one,
    )


def _replaced(case: Case, **changes: object) -> Case:
    return replace(case, **changes)  # type: ignore[arg-type]


def _times(found: Members, arm: str) -> Times:
    return Times(
        ttft=found.ns(f"{arm}_ttft_ms"),
        read=found.ns(f"{arm}_read_ms"),
        load=found.ns(f"{arm}_import_ms"),
        write=found.ns(f"{arm}_write_ms"),
        persist=found.ns(f"{arm}_persist_ms"),
        p99=found.ns(f"{arm}_p99_decode_ms"),
    )


def _sample(found: Members) -> Sample:
    native, other = found.ns("native_ttft_ms"), found.ns("cachegen_ttft_ms")
    if native is None or other is None:
        raise InvalidDocumentError("has no pair of times", where=found.at)
    return Sample(native_ttft=native, other_ttft=other, passed=found.flag("passed"))


def _gates(found: Members) -> Gates:
    return Gates(
        agreement=found.number("minimum_token_agreement"),
        regression=found.number("maximum_p99_decode_regression"),
        smaller=found.flag("encoded_payload_must_be_smaller_than_native") is True,
        faster=found.flag("restore_to_first_token_must_beat_native") is True,
    )


def _kind(found: Members, name: str) -> str:
    kind = found.text(name)
    if re.match(_TYPE, kind) is None:
        raise InvalidDocumentError(f"found element type {kind[:40]!r}", where=f"{found.at}.{name}")
    return kind


def _commits(found: Members) -> Mapping[str, str]:
    one = found.text("commit")
    listed = found.inner("commits")
    return {"all": one} if one else {name: listed.text(name) for name in listed.value}


def _models(found: Members) -> Iterator[tuple[str, str]]:
    model = found.value.get("model")
    if isinstance(model, str):  # a growth report names its model and no digest
        yield model, ""
    elif model is not None:
        inner = found.inner("model")
        yield inner.text("id"), inner.text("sha256")
    identity = found.value.get("model_identity")
    if isinstance(identity, str):
        yield identity, ""
    elif identity is not None:
        inner = found.inner("model_identity")
        yield inner.text("id", inner.text("model_id")), inner.text("sha256")
    told = found.value.get("model_id")
    if isinstance(told, str):
        yield told, ""
    if isinstance(found.value.get("stage_models"), list):
        for one in found.list("stage_models"):
            yield one.text("id", one.text("model_id")), one.text("sha256")


def _layers(found: Members) -> int:
    return found.inner("model").whole("layer_end") or 0 if isinstance(found.value.get("model"), Mapping) else 0


def _exclusions(notes: Sequence[str]) -> Iterator[Exclusion]:
    for number, note in enumerate(notes):
        said = re.match(_EXCLUDED, note)
        if said is not None:
            yield Exclusion(name=f"{said[1].lower()}/{said[2].lower()}", note=number, reason=said[3])
