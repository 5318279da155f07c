"""Reason codes in words. A code that is not known here is shown as it is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from harness.model.values import Capability

_EVENTS: Final[Mapping[str, str]] = {
    "rerun_same_inputs": "the same inputs were run again",
    "source_changed": "the source changed",
    "scenario_changed": "the scenario changed",
    "model_changed": "the model changed",
    "environment_changed": "the environment changed",
    "hardware_changed": "the hardware changed",
    "harness_bug": "the harness had a fault",
    "measurement_invalid": "the measurement was not valid",
    "schema_migration": "the form of the record changed",
    "record_error": "the record was wrong",
}

_REASONS: Final[Mapping[str, str]] = {
    "device_absent": "The device that was asked for is not on this machine, or the engine was built without it.",
    "fewer_devices": "The machine has fewer devices of this kind than the scenario needs.",
    "few_pairs": "There are too few pairs for an interval of their median.",
    "one_process": "All pairs ran in one process, so that its own state could be what was measured.",
    "order_unbalanced": "One side ran first more often than the other.",
    "reference_moved": "The reference itself took another time in the second half of the pairs.",
    "pair_in_two_processes": "The two turns of a pair did not run in the same process, or nobody knows in which.",
    "longer_than_its_run": "A turn says it took longer than the run had for it.",
    "constant_times": "All turns took the same time: the clock stands.",
    "implausible_gain": "The gain is too large to be believed.",
    "interval_too_wide": "The interval of the median difference holds the limit.",
    "slower": "The whole interval of the median difference lies above 0.",
    "nothing_reused": "A turn that should have reused state forwarded everything.",
    "reference_reused": "A turn that should not have reused state did.",
    "not_alone": "Other jobs ran at the same time, so its times are of no use.",
    "machine_busy": "The machine was busy when the run began, so its times are of no use.",
    "reference_not_cold": "The reference reused stored state itself, so it proves nothing.",
    "leak_not_seen": "Snapshots were kept on purpose and memory was not seen to grow: the measure is blind.",
    "budget_never_reached": "The budget was never reached, so that it holds shows nothing.",
    "states_do_not_differ": "Different prompts left the same state: the digests are blind.",
    "nothing_restored": "Nothing was restored, so nothing was compared.",
    "exact_differs": "The exact form did not come back as it was, so nothing can be said beside it.",
    "path_differs": "Another path decoded the archives than the one that was declared.",
    "size_formula": "The bytes of an archive are not those of its formula, which does not depend on the data.",
    "too_few_pairs": "There are too few pairs, or too few processes, to judge a time.",
    "larger": "The lossy form is not smaller than the exact one.",
    "restore_slower": "Restore to first token takes longer than of the exact form.",
    "import_slower": "The import takes longer than its limit.",
    "total_dearer": "Encode, write, read and import together cost more than of the exact form.",
    "memory_not_seen": "Memory that was taken on purpose was not seen: the measure is blind.",
    "more_memory": "The import takes more memory than its limit.",
    "entry_failed": "A probe of an entry of the catalogue did not hold.",
    "entry_missing": "Something that an entry of the catalogue asks for was not tried.",
    "cell_in_error": "A cell is an error, so that nothing can be said of it.",
    "cell_inconclusive": "A cell lies inside the noise.",
    "no_cells": "Nothing was measured.",
    **{
        f"{name}_{word}": f"{what}: {why}"
        for name, what in (("restore", "Restore to first token"), ("import", "Import"), ("total", "Total cost"))
        for word, why in (
            ("unstable", "the processes disagree by more than is allowed."),
            ("control_moved", "the exact form differs from itself by more than the noise that is allowed."),
            ("implausible", "the gain is too large to be believed."),
            ("constant", "the times are the same in every round: the clock stands."),
            ("in_noise", "the interval holds the limit."),
        )
    },
    "memory_grew": "Memory grew after the warm-up by more than is allowed.",
    "over_budget": "Snapshots held more bytes than the budget.",
    "differs": "A turn was not the same without the cache.",
    "clean_engine_fails": "The clean engine does not pass a cell in which a mutant was stopped.",
    "not_stopped": "A mutant was not stopped by the check that it names.",
    "no_kill_inside": "No kill came before its publish was over.",
    "not_reopened": "A new process did not open the folder.",
    "torn": "A restore after a kill had another state.",
    "put_aside": "A kill left a damaged file.",
    "lost": "What had been published before the kill was not restored.",
    "cold_differs": "A prompt forwarded anew had another state.",
    "not_repeatable": "The reference is unequal to itself, so nothing can be blamed on the restore.",
    "parts_differ": "State parts differ from the reference.",
    "logits_differ": "The pending logits differ, and they come first of what differs.",
    "tokens_differ": "Parts and logits are equal, the decoded tokens differ.",
    "position_differ": "The two sides stand at different positions by the engine's own count.",
    "beyond_tolerance": "A part lies farther from its reference than the scenario allows.",
    "distance_missing": "How far a differing part lies from its reference was not measured.",
    "restore_not_witnessed": "The counters do not bear out that a restore happened as the scenario says.",
    "nothing_compared": "There was nothing to compare, and nothing equals nothing.",
    "not_finite": "Logits hold a NaN or an infinity.",
    "control_not_seen": "A planted corruption was not noticed: the comparison is blind here.",
    "control_within_limits": "A state that is wrong keeps the limits of a near check: they would let it pass.",
    "no_control": "No control of the cell can run on this target, so equality would prove nothing. A control that "
    "flips a bit needs the declared capability corrupt (with store or snapshot, where it flips one of those), and the "
    "part that it flips.",
    "out_of_place": "Something stands in the evidence where the plan has no place for it.",
    "observation_missing": "Something that should have been observed is not in the evidence.",
    "refused": "The engine refused a step, by name.",
    "short_buffer": "The engine refused a step: the buffer is too short.",
    "format": "The engine refused a step: the bytes are not in its format.",
    "identity": "The engine refused a step: the state is another model's, device's or build's.",
    "kv_mode": "The engine refused a step: the state has another K or V element type.",
    "layout": "The engine refused a step: the state has other parts or row sizes.",
    "capacity": "The engine refused a step: there is no room for the state.",
    "missing": "The engine refused a step: what was to be restored is not there.",
    "budget": "The engine refused a step: its budget is spent.",
    "state": "The engine refused a step: not in the state that the session was in.",
    "transfer": "The engine refused a step: the copy failed.",
    "unsupported": "The engine refused, as unsupported, an option or a step that the scenario needs, though it "
    "declares what that asks of it, so nothing was tried. Its adapter takes the option, or drops the capability.",
    "manipulation_refused": "The engine refused what the harness does to its state on purpose (flip, evict, alter), so "
    "what should follow was not tried. Its adapter does it, or drops the capability.",
    "engine_options": "The target refused, as unsupported, an engine option that the scenario sets, so it was not "
    "asked. An adapter that takes the option is.",
    "forge_image": "The target's images have no field for this forgery, so it was not tried.",
    "in_suite_full": "The scenario asks this cell in suite full, at another scale (--suite full).",
    "like_another_cell": "The scenario leaves it out: another cell asks the same.",
    "same_as_hybrid": "The scenario leaves it out: the cell of architecture hybrid asks the same.",
    "as_many_cuts_as_tiles": "The scenario leaves it out: a cut at every tile of a long prompt is too many.",
    "too_large": "It takes more bytes than the scenario allows.",
    "other_size": "It takes another number of bytes than what it should hold comes to.",
    "other_image": "The exported image has other bytes than that of the reference.",
    "other_finish": "A decode ended for another reason than its tokens show or the scenario asks.",
    "not_tried": "Nobody tried it in this run.",
    "no_record": "No record tells of the turn that should have restored it.",
    "reference_refused": "The engine refused a step of the reference, so there is nothing to compare with.",
    "control_refused": "The engine refused a step of a control.",
    "not_refused": "The engine did what it should have refused.",
    "other_code": "The engine refused under another name than allowed.",
    "other_count": "The count is not within its limit.",
    "tokens_unaccounted": "Reused and forwarded tokens do not make up the prompt.",
    "entries_unaccounted": "The entries held do not add up to the store's own count.",
    "bytes_unaccounted": "The bytes of the entries do not add up to the store's own count.",
    "counter_missing": "The store does not report this counter.",
    "no_unit": "The size of one unit could not be told.",
    "other_prompt": "The turn was given another prompt than the scenario declares.",
    "other_decode_count": "The turn decoded another number of tokens than asked.",
    "cell_not_closed": "The cell did not come to its end.",
    "too_few_parts": "The engine lists too few parts for its state to be whole.",
    "no_metadata": "The first part is not the metadata.",
    "name_twice": "Two parts have one name.",
    "family_missing": "A family of state that the scenario needs is not in the inventory.",
    "parts_come_and_go": "The list of parts changes between looks of one session.",
    "no_bytes": "A part with elements has no bytes.",
    "other_element_type": "K or V rows are of another element type than the target says.",
    "size_does_not_fit": "The bytes of a part do not fit its shape and element type.",
    "part_never_written": "All bytes of a part have one value where the model has been run: nobody wrote it.",
    "part_never_changes": "A part is the same after prompts that differ: it is not the state that the engine works on.",
    "digest_of_nothing": "A part has the digest of no bytes.",
    "tokenizer": "The scenario's words are those of another vocabulary than the target's.",
    "baseline_failed": "The reference fails this probe too, so it says nothing about the cache.",
    "blocked": "The turn of this probe did not come about.",
    "answer_lost": "The reference gave the answer that was asked for; this turn did not.",
    "build_untold": "The target does not tell what it has loaded, so two builds cannot be told apart.",
    "same_build": "The restart led into the build that it came from, so nothing was shown about another one.",
    "not_comparable": "Another build took the image; what it holds cannot be measured against the first one's.",
    "nothing_spared": "The turn reused no token, or forwarded more of its prompt than the scenario allows.",
    "templated_prompt": "A template around prompts hides how many of the scenario's tokens the target reused.",
    "image_option": "The target binds its images to an engine option that the scenario changes.",
    "session_option": "The target does not know a session option that the scenario uses.",
    "family": "The scenario works on a family of state that the target does not have.",
    "rollback": "The engine says that the state of this model cannot be taken back.",
    "archive": "The target's rows cannot be coded, or it does not take archives of this version.",
    "observability": "The target shows less of its state than the scenario needs.",
    "crash": "The engine's process ended by itself.",
    "hang": "The engine gave no answer within the limit.",
    "out_of_memory": "The engine ran out of memory.",
    "engine_error": "The engine raised an error that is no refusal.",
    "protocol": "The engine's answer is not one that the seam knows.",
    "not_selected": "The run was asked for other cells only.",
    "unstated": "No reason was recorded.",
    "no_observation": "The cell left nothing in the evidence.",
    "no_checks": "The scenario asks nothing here.",
    "nothing_judged": "Only controls and the harness' own checks were asked.",
    "trust_missing": "Nothing shows that the digests can be believed.",
    "trust_mismatch": "A part hashed again gave another digest.",
    "no_known_answers": "The child was not given buffers with known digests.",
    "child_twice": "Two children carry one number in the evidence.",
    "interrupted": "The run was broken off before this was done.",
    "no_device": "The hardware was not there.",
    "not_located": "A flipped bit was neither located before the next token was forwarded, nor refused by name.",
    "differs_without_a_flip": "A restore without a flip differs from the reference, so no flip can be blamed.",
    "digests_not_trusted": "A part hashed again gave another digest, or nobody checked any.",
}

_WITNESS: Final[Mapping[str, str]] = {
    "nothing_reused": "no token was reused",
    "no_bytes_copied": "no byte was copied back",
    "bytes_copied": "bytes were copied where none should be",
    "not_from_disk": "no byte was loaded from the disk",
    "same_process": "the process was the one that had written it, so memory could have served it",
    "tokens_reused": "tokens were reused where none should be",
    "tokens_unaccounted": "reused and forwarded tokens do not make up the prompt",
    "fewer_bytes_than_state": "fewer bytes were counted as copied back than the state has",
    "more_bytes_than_state": "more bytes were counted as copied back than the state has",
    "other_position": "the state stands at another position than the tokens reused",
}


def event_reason(code: str) -> str:
    """Return why a ledger event was made, as the end of a sentence."""
    return _EVENTS.get(code, spaced(code))


def reason_sentence(code: str) -> str:
    """Return why a check or a cell did not pass, as one sentence."""
    if not code:
        return "No reason was recorded."
    return _REASONS.get(code) or f"{spaced(code).capitalize()}."


def left_out_sentence(code: str) -> str:
    """Return why nothing was asked of a cell, as one sentence; a code may be the name of a capability."""
    if code in _REASONS or code not in frozenset(Capability):
        return reason_sentence(code)
    return f"The target does not declare the capability {code}, which the cell needs."


def witness_fault(code: str) -> str:
    """Return in what way a witness was not borne out, as part of a sentence."""
    return _WITNESS.get(code, spaced(code))


def spaced(code: str) -> str:
    """Return a code as words."""
    return code.replace("_", " ")
