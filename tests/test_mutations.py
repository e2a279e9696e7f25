"""Every planted fault is seen by a test: by the one named here, at least.

A test that goes takes its faults along: another has to see them before.
"""

import os
import subprocess
import sys

import pytest
from mutations import MUTATIONS

FIRST_SEEN_BY = {
    "noise_of_floats": "privacy/test_random.py -k repeats_noise",
    "number_of_rows_for_free": "privacy/test_statistics.py -k no_row_moves",
    "empty_cells_without_noise": "privacy/test_tables.py -k noise_of_the_ledger",
    "delta_of_all_for_each": "privacy/test_discovery.py -k share_the_delta",
    "plurality_without_noise": "privacy/test_bugs_of_others.py -k loses",
    "scale_taken_for_deviation": "privacy/test_votes_and_steps.py -k reserved_scale",
    "noise_without_the_norm": "training/test_dp_sgd.py -k reserved_std",
    "one_secret_for_all": "privacy/test_random.py -k repeats_streams",
    "sensitivity_rounded_down": "privacy/test_statistics.py -k no_row_moves",
    "least_count_left_out": "privacy/test_discovery.py -k larger_least_count",
    "unit_charged_as_a_row": "table/test_units.py -k part_of_the_mu",
    "failed_fit_refunded": "test_faults.py -k interrupted",
    "delta_set_aside_forgotten": "privacy/test_report.py -k left_aside",
    "refit_not_charged": "privacy/test_bugs_of_others.py -k below_the_tolerance",
    "all_rows_after_classes": "privacy/test_accountant.py -k whole_plan",
    "claim_to_the_nearest": "privacy/test_report.py -k quotes_the_figures",
    "exact_rows_in_a_note": "measure/test_discovery.py -k shows_in_the_releases",
    "range_cut_to_the_values": "measure/test_discovery.py -k shows_in_the_releases",
    "deviation_of_a_mean": "measure/test_sites.py -k sums",
    "categories_as_they_appear": "measure/test_discovery.py -k shows_in",
    "claim_of_the_first_site": "measure/test_sites.py -k claims_of_all_sites",
    "design_unchecked": "measure/test_measurements.py -k damaged_file",
    "limit_per_part": "table/test_units.py -k same_limit",
    "whole_numbers_by_way_of_floats": "table/test_keys.py -k any_source",
    "unlabelled_in_the_first_class": "synthesizers/test_pate_triplegan.py -k harm",
    "last_chunk_overlaps": "privacy/test_tables.py -k chunks",
    "cell_behind_an_error": "test_withheld.py -k cell_of_a_csv",
    "row_in_two_blocks": "privacy/test_sources_issue_the_same.py -k same_from",
    "nan_that_is_not_missing": "table/test_keys.py -k nan_is_missing",
    "summer_time_forgotten": "test_types.py -k come_back_whole",
    "order_lost_in_a_file": "persistence/test_round_trip.py -k keep_their_order",
    "gap_to_the_row_before": "table/test_ordered.py -k depends_on_no_other_row",
    "totals_before_order": "test_rules.py -k parts_in_order",
    "where_without_rules": "test_rules.py -k satisfy_a_condition",
    "batches_of_fixed_size": "training/test_dp_sgd.py -k row_that_joins",
    "clipped_layer_by_layer": "training/test_dp_sgd.py -k loop_over_rows",
    "gradient_replaced_by_noise": "training/test_dp_sgd.py -k mean_features",
    "sum_replaced_by_noise": "synthesizers/test_class_gan.py -k Synthesizer-inf",
    "votes_replaced_by_noise": "privacy/test_votes_and_steps.py -k majority_answers",
    "classifier_replaced_by_noise": "training/test_dp_sgd.py -k balanced_cross",
    "branch_replaced_by_noise": "training/test_dp_sgd.py -k means_of_the_classes",
    "teachers_of_equal_size": "training/test_teachers.py -k own_teacher_only",
    "mean_over_teachers_with_rows": "synthesizers/test_privacy.py -k results_follow",
    "saved_in_single_precision": "persistence/test_round_trip.py -k round_trip",
    "whole_alpha_for_each_rate": "audit/test_bounds.py -k perfect_attack -m audit",
    "scaled_by_test_rows": "metrics/test_encode.py -k by_the_first_table",
    "child_weighs_as_its_parent": "linked/test_tree.py -k weigh_one_together",
    "ties_by_place_in_the_file": "linked/test_tree.py -k order_of_files",
    "orphans_of_the_first_parent": "linked/test_tree.py -k hang_on_nothing",
    "contexts_of_private_parents": "linked/test_linked.py -k unit_moves",
}


@pytest.mark.nightly
@pytest.mark.parametrize("name", MUTATIONS)
def test_every_fault_is_seen(name, pytestconfig):
    """With exit code 1: some test ran, and failed."""
    file, *more = FIRST_SEEN_BY[name].split()
    command = [sys.executable, "-m", "pytest", "-q", "-x", f"tests/{file}", *more]
    run = subprocess.run(
        command,
        cwd=pytestconfig.rootpath,
        env=os.environ | {"SKDPSYNTH_MUTATION": name},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 1, run.stdout[-2000:]
