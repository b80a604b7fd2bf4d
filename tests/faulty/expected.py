"""Fault of each faulty program: its name, where it begins, and what it affects."""

from __future__ import annotations

from dataclasses import dataclass

CAPTURED_STEPS = 5
"""A heuristic may date an onset this many captured steps off; a relation knows the step."""


@dataclass(frozen=True)
class Planted:
    """The root finding of a faulty program.

    The program's name is the rule's. The finding must date the onset between `first_step` and
    `last_step`. `layer` is a module path, or a tensor's name, that must be among the layers; "" if
    the fault has none. The line to change is marked `# <- here` in the program; without a mark, any
    line counts.
    """

    name: str
    code: str
    first_step: int
    last_step: int
    layer: str = ""
    severity: str = "error"


def exactly(name: str, code: str, step: int, **options: str) -> Planted:
    """A relation or a value that is not finite: the step is known."""
    return Planted(name, code, step, step, **options)


def near(name: str, code: str, step: int, **options: str) -> Planted:
    """The onset is inferred from history, so it may be up to five captured steps off."""
    return Planted(name, code, max(0, step - CAPTURED_STEPS), step + CAPTURED_STEPS, **options)


PLANTED = (
    exactly("nonfinite_loss", "NUM001", 17),
    exactly("nonfinite_gradient", "NUM002", 23, layer="0"),
    exactly("nonfinite_activation", "NUM004", 31, layer="compress"),
    near("loss_scale_collapse", "NUM009", 20),
    near("exploding_gradient", "GRD101", 120, layer="0"),
    near("gradient_underflow", "NUM006", 0, layer="0", severity="warning"),
    near("overflow_risk", "NUM007", 0, layer="pool", severity="warning"),
    near("vanishing_gradient", "GRD102", 0, layer="0"),
    exactly("gradient_spike", "GRD103", 120, severity="warning"),
    near("accumulation_not_averaged", "GRD107", 0, severity="warning"),
    near("clipping_every_step", "GRD106", 0, severity="warning"),
    near("disconnected_parameter", "GRD104", 0, layer="encoder.0"),
    near("zero_gradient", "GRD108", 0, layer="time", severity="info"),
    exactly("optimizer_without_model", "OPT605", 0, layer="0.weight"),
    exactly("frozen_parameters", "OPT606", 0, layer="0.2", severity="warning"),
    near("unused_module", "STR708", 0, layer="blocks"),
    near("dead_units", "ACT201", 0, layer="1"),
    near("loss_not_decreasing", "LOS401", 0, severity="warning"),
    near("loss_diverging", "LOS402", 0),
    near("stuck_at_chance", "LOS407", 0),
    exactly("wrong_sign", "LOS410", 0),
    exactly("evaluation_unchanged", "LOS413", 10, severity="warning"),
    exactly("loss_unchanged", "LOS414", 0),
    exactly("mask_of_ones", "STR722", 0),
    exactly("padding_labeled", "DAT536", 0, severity="warning"),
    exactly("padding_attended", "STR732", 0, severity="warning"),
    exactly("wrong_groups", "TRE920", 0, severity="warning"),
    exactly("unknown_parameter", "TRE921", 0, severity="warning"),
    exactly("visible_tokens_labeled", "DAT543", 0, severity="warning"),
    exactly("batch_as_sequence", "STR723", 0, layer="rnn", severity="warning"),
    exactly("sigmoid_before_bce_with_logits", "STR702", 0),
    exactly("softmax_before_cross_entropy", "STR701", 0),
    exactly("loss_broadcast", "STR706", 0),
    near("parameter_without_optimizer", "OPT604", 0, layer="head"),
    exactly("stale_gradient", "GRD105", 40),
    exactly("optimizer_reset", "OPT610", 20, severity="warning"),
    exactly("step_without_backward", "OPT608", 1),
    exactly("learning_rate_zero", "OPT601", 10),
    exactly("schedule_at_wrong_pace", "OPT614", 0, severity="warning"),
    exactly("schedule_of_batches", "OPT627", 0, severity="warning"),
    exactly("detached_term", "LOS415", 0, severity="warning"),
    exactly("similarity_alone", "LOS424", 0, severity="warning"),
    exactly("trained_target", "LOS416", 0, severity="warning"),
    exactly("mixed_axes", "STR724", 0, severity="warning"),
    exactly("rows_not_drawn_again", "DAT528", 0, layer="Sequential", severity="warning"),
    exactly("evaluation_labels_trained", "DAT522", 0, layer="Net", severity="warning"),
    exactly("restore_without_effect", "RUN909", 40, severity="warning"),
    Planted("posterior_collapse", "LOS417", 50, 140, layer="Autoencoder", severity="warning"),
    exactly("aliased_copy", "STR728", 0, severity="warning"),
    exactly("repeated_module", "STR735", 0, layer="blocks", severity="warning"),
    exactly("freeze_without_effect", "OPT621", 0, layer="0.weight", severity="warning"),
    exactly("wrong_code_noise", "LOS426", 0, severity="warning"),
    near("averaged_norms_initial", "STR731", 100, severity="warning"),
    exactly("blind_denoiser", "LOS427", 0, severity="warning"),
    near("mixed_channels", "DAT531", 0, layer="Sequential", severity="warning"),
    near("positions_over_batch", "STR729", 0, layer="positions", severity="warning"),
    near("equal_states", "DAT520", 0, severity="info"),
    near("teacher_in_training_mode", "STR727", 150, severity="warning"),
    exactly("policy_without_returns", "LOS418", 0, severity="info"),
    exactly("policy_minimizes_rewards", "LOS420", 0, severity="warning"),
    exactly("entropy_minimized", "LOS433", 0, severity="warning"),
    Planted("policy_entropy_gone", "LOS419", 9, 90, severity="info"),
    near("equal_views", "DAT523", 0, severity="warning"),
    near("end_never_a_target", "DAT521", 0, severity="info"),
    near("answers_not_trained", "DAT530", 0, severity="warning"),
    exactly("targets_shifted_wrongly", "DAT524", 0, severity="warning"),
    exactly("warm_up_restarts", "OPT624", 20, severity="warning"),
    exactly("own_row_competes", "LOS428", 0, severity="warning"),
    exactly("likelihood_minimized", "LOS429", 0, severity="warning"),
    exactly("penalty_per_pixel", "LOS434", 0, severity="warning"),
    exactly("soft_targets_of_other_rows", "LOS435", 0, severity="warning"),
    exactly("attention_mask_wrong", "STR733", 0),
    exactly("interpolated_labels", "DAT538", 0, severity="warning"),
    exactly("zero_slope", "STR734", 0, layer="encoder.0", severity="warning"),
    exactly("overlap_minimized", "LOS421", 0, severity="warning"),
    exactly("overlap_of_scores", "LOS430", 0, severity="warning"),
    exactly("ctc_labels_unreachable", "LOS431", 0, severity="warning"),
    exactly("distances_as_scores", "LOS432", 0, severity="warning"),
    exactly("pairs_one_sided", "LOS425", 0, severity="info"),
    exactly("micro_batches_cleared", "GRD109", 0, severity="warning"),
    near("stuck_at_margin", "LOS422", 0, severity="warning"),
    exactly("attention_over_batch", "STR725", 0, severity="warning"),
    exactly("memorized_rows", "DAT525", 0, severity="warning"),
    Planted("wrong_training_labels", "DAT527", 40, 80, severity="warning"),
    near("learning_rate_too_high", "OPT602", 0),
    near("learning_rate_too_low", "OPT603", 0, severity="warning"),
    near("weight_decay_dominates", "OPT607", 0, severity="warning"),
    exactly("epsilon_underflow", "OPT609", 0),
    exactly("epsilon_too_large", "OPT612", 0, severity="warning"),
    near("weight_collapse", "WGT305", 2),
    Planted("weight_growth", "WGT306", 16, 64, layer="0", severity="warning"),
    exactly("nonfinite_weight", "NUM003", 0, layer="0"),
    near("update_lost_to_rounding", "NUM008", 2, layer="0"),
    exactly("zero_all", "NUM010", 0, layer="context", severity="warning"),
    exactly("tensor_variance", "NUM011", 0, layer="context", severity="warning"),
    near("unchanged_tensor", "WGT303", 0, layer="0"),
    near("update_ratio", "WGT304", 0, layer="0", severity="warning"),
    near("wrong_initial_loss", "LOS408", 0, severity="warning"),
    near("too_good_to_be_true", "LOS409", 0, severity="warning"),
    near("class_imbalance", "DAT503", 0, severity="warning"),
    # Shows once the other classes are learned, which takes some seeds longer.
    Planted("confusion", "DAT504", 0, 150, severity="warning"),
    near("label_out_of_range", "DAT505", 0),
    near("labels_of_one_class", "DAT517", 0),
    near("data_changed_in_place", "DAT519", 20),
    near("token_ratio", "DAT508", 0, severity="info"),
    exactly("softmax_wrong_dim", "STR709", 0),
    near("missing_activation_range", "STR710", 0),
    near("causal_leak", "STR712", 0),
    near("unnormalized_input", "DAT501", 0, layer="1", severity="warning"),
    exactly("symmetric_initialization", "WGT302", 0, layer="0"),
    exactly("nonfinite_input", "NUM005", 7),
    exactly("unshuffled_batches", "DAT506", 0),
    near("repeated_batch", "DAT507", 4),
    exactly("train_eval_shift", "DAT509", 100, layer="Sequential"),
    near("train_eval_overlap", "DAT510", 38, layer="Sequential"),
    exactly("unseen_classes", "DAT514", 24, severity="warning"),
    Planted("mirrored_targets", "DAT537", 0, 400, severity="warning"),
    Planted("shifted_targets", "DAT539", 0, 400, severity="warning"),
    near("labels_renumbered", "DAT532", 20, severity="warning"),
    exactly("samples_without_weight", "DAT534", 0),
    near("eval_targets_differ", "DAT535", 20, severity="warning"),
    near("evaluation_resampled", "DAT526", 18, severity="warning"),
    exactly("too_little_data", "DAT512", 0, severity="info"),
    near("feature_scale_mismatch", "DAT502", 0, layer="0", severity="warning"),
    near("correlated_features", "DAT513", 0, layer="0", severity="info"),
    near("saturated_activation", "ACT202", 0, layer="1", severity="warning"),
    Planted("constant_output", "ACT203", 5, 300, layer="Sequential", severity="warning"),
    near("activation_growth", "ACT204", 0, layer="16", severity="warning"),
    near("poor_initialization", "WGT301", 0, layer="2", severity="warning"),
    near("memory_growth", "RUN903", 0, severity="warning"),
    exactly("no_checkpoint", "RUN907", 0, severity="info"),
    near("loss_spike", "LOS404", 120, severity="warning"),
    Planted("loss_oscillating", "LOS403", 60, 125, severity="warning"),
    Planted("overfit", "LOS405", 10, 60, severity="warning"),
    Planted("overtraining", "LOS406", 5, 60, severity="warning"),
    exactly("labels_unrelated", "DAT511", 0, severity="warning"),
    exactly("eval_mode_in_training", "STR703", 20, layer="Sequential"),
    exactly("train_mode_in_evaluation", "STR704", 15, layer="Sequential"),
    exactly("excessive_dropout", "STR717", 0, layer="2", severity="warning"),
    exactly("batchnorm_tiny_batch", "STR705", 0, layer="1"),
    Planted("batchnorm_averages_lag", "STR719", 20, 80, layer="1", severity="warning"),
    exactly("class_weights_inverted", "DAT515", 0, severity="warning"),
    exactly("unscaled_targets", "DAT516", 0, severity="warning"),
    Planted("attention_collapse", "ACT205", 5, 200, severity="warning"),
    near("attention_logit_growth", "ACT206", 0, severity="warning"),
    exactly("single_feature_dominates", "TRE901", 0, layer="f7"),
    exactly("stopped_too_late", "TRE902", 0, severity="warning"),
    exactly("leaf_explosion", "TRE903", 0, severity="warning"),
    exactly("boosting_rate_too_high", "TRE904", 0),
    exactly("unscaled_weights", "TRE905", 0, severity="warning"),
    exactly("identifier_feature", "TRE906", 0, layer="Column_10", severity="warning"),
    exactly("objective_mismatch", "TRE907", 0, severity="info"),
    exactly("early_stopping_misled", "TRE908", 0),
    exactly("tree_not_growing", "TRE909", 0),
    exactly("boosting_rate_too_low", "TRE910", 0, severity="warning"),
    exactly("categorical_as_number", "TRE911", 0, layer="Column_5", severity="warning"),
    exactly("useless_features", "TRE912", 0, layer="f10", severity="warning"),
    exactly("missing_value_coded", "TRE913", 0, layer="f2", severity="warning"),
    exactly("wrong_objective_gradient", "TRE914", 0),
    exactly("boosting_starts_far_off", "TRE919", 0, severity="warning"),
    exactly("evaluated_on_training", "TRE915", 0, severity="warning"),
    exactly("eval_table_differs", "TRE916", 0, severity="warning"),
    exactly("metric_mismatch", "TRE917", 0, severity="warning"),
    exactly("nothing_learned", "TRE918", 0, severity="warning"),
    exactly("too_few_passes", "EST951", 120, severity="warning"),
    exactly("constant_prediction", "EST952", 1, severity="warning"),
    exactly("label_among_features", "EST953", 1, layer="x10", severity="warning"),
    Planted("router_collapse", "ACT207", 0, 200, layer="gate", severity="warning"),
)
